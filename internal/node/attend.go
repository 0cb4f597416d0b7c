package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/probe"
	"github.com/muster-dev/muster/internal/node/process"
)

// attend watches a running attempt: its end, its start hook and its probes.
// Adopted says that an earlier muster started it.
func (w *worker) attend(u *unit, adopted bool) {
	p := u.proc
	ctx, cancel := context.WithCancel(w.ctx)
	u.cancel = cancel
	if adopted {
		u.hooked = true
		if c := w.apiStatus(u); c != nil && c.Started != nil && *c.Started {
			u.started = true
			u.ready = c.Ready || u.spec.ReadinessProbe == nil
		}
	}
	w.task(func() {
		select {
		case <-p.Done():
		case <-w.ctx.Done():
			return
		}
		w.node.live.Remove(p)
		exit := p.Exit()
		if exit.Reason != "" && exit.Code == 0 {
			exit.Code = 137
		}
		if exit.Code != 0 && exit.Message == "" && u.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			exit.Message = w.lastWords(p)
		}
		w.post(func() { u.end(exit) })
		w.removeRoot(p)
	})
	if u.hooked && u.spec.StartupProbe == nil && u.spec.LivenessProbe == nil && u.spec.ReadinessProbe == nil {
		return
	}
	hooked, started, target := u.hooked, u.started, w.target(p, u.spec)
	w.task(func() {
		// from runs f in the worker, if the attempt still runs.
		from := func(f func()) {
			w.post(func() {
				if u.proc == p {
					f()
				}
			})
		}
		if !hooked && !w.startHook(ctx, u, p, target, from) {
			return
		}
		if !started && !w.startupProbe(ctx, u, target, from) {
			return
		}
		w.probes(ctx, u, target, from)
	})
}

// startHook runs the hook after the start; a hook that fails ends the
// container.
func (w *worker) startHook(ctx context.Context, u *unit, p *process.Process, target probe.Target, from func(func())) bool {
	if err := runHook(ctx, u.spec.Lifecycle.PostStart, p, target); err != nil {
		if ctx.Err() == nil {
			from(func() {
				u.failure = waiting{reason: reasonHookError, message: fmt.Sprintf("the postStart hook: %v", err)}
				w.stop(u, w.grace())
			})
		}
		return false
	}
	from(func() {
		u.hooked = true
		u.ready = u.started && u.spec.ReadinessProbe == nil
	})
	return true
}

func (w *worker) startupProbe(ctx context.Context, u *unit, target probe.Target, from func(func())) bool {
	if u.spec.StartupProbe == nil {
		return true
	}
	healthy := false
	probe.Watch(ctx, u.spec.StartupProbe, target, w.node.config.Clock.After, func(v probe.Verdict) bool {
		healthy = v.Healthy
		if !healthy {
			from(func() { w.unhealthy(u, u.spec.StartupProbe, "startup", v.Message) })
		}
		return false
	})
	if healthy {
		from(func() { u.started, u.ready = true, u.spec.ReadinessProbe == nil })
	}
	return healthy
}

// probes watches liveness and readiness until ctx ends.
func (w *worker) probes(ctx context.Context, u *unit, target probe.Target, from func(func())) {
	var both sync.WaitGroup
	if p := u.spec.LivenessProbe; p != nil {
		both.Go(func() {
			probe.Watch(ctx, p, target, w.node.config.Clock.After, func(v probe.Verdict) bool {
				if !v.Healthy {
					from(func() { w.unhealthy(u, p, "liveness", v.Message) })
				}
				return v.Healthy
			})
		})
	}
	if p := u.spec.ReadinessProbe; p != nil {
		both.Go(func() {
			probe.Watch(ctx, p, target, w.node.config.Clock.After, func(v probe.Verdict) bool {
				from(func() { u.ready = v.Healthy })
				return true
			})
		})
	}
	both.Wait()
}

// unhealthy ends a container that is not well; its restart policy says what
// follows.
func (w *worker) unhealthy(u *unit, p *corev1.Probe, name, message string) {
	w.log.Info("a container is not well", "container", u.spec.Name, "probe", name, "answer", message)
	grace := w.grace()
	if p.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	u.failure = waiting{reason: reasonUnhealthy, message: fmt.Sprintf("the %s probe failed: %s", name, message)}
	w.stop(u, grace)
}

// stop asks a unit's running attempt to end within grace. A later call can
// only bring the end forward.
func (w *worker) stop(u *unit, grace time.Duration) {
	p, now := u.proc, w.node.config.Clock.Now()
	by := now.Add(grace)
	if p == nil || (!u.stopBy.IsZero() && !by.Before(u.stopBy)) {
		return
	}
	first := u.stopBy.IsZero()
	u.stopBy = by
	if u.cancel != nil {
		u.cancel()
	}
	var hook *corev1.LifecycleHandler
	if first && grace > 0 && u.spec.Lifecycle != nil {
		hook = u.spec.Lifecycle.PreStop
	}
	target := w.target(p, u.spec)
	w.task(func() {
		if hook != nil {
			ctx, cancel := context.WithTimeout(w.ctx, grace)
			if err := runHook(ctx, hook, p, target); err != nil && w.ctx.Err() == nil {
				w.log.Info("the preStop hook", "container", u.spec.Name, "error", err)
			}
			cancel()
			// What the hook leaves of the time, and a moment to end in any case.
			const moment = 2 * time.Second
			grace = max(by.Sub(w.node.config.Clock.Now()), moment)
		}
		var err error
		if grace <= 0 {
			err = p.Kill(w.ctx)
		} else {
			err = p.Stop(w.ctx, grace)
		}
		if err != nil && !errors.Is(err, process.ErrEnded) && w.ctx.Err() == nil {
			w.log.Warn("stopping a container", "container", u.spec.Name, "error", err)
			// The next step tries again.
			w.post(func() {
				if u.proc == p {
					u.stopBy = time.Time{}
				}
			})
		}
	})
}

// target is the container as probes and hooks reach it.
func (w *worker) target(p *process.Process, ctr *corev1.Container) probe.Target {
	host, check := w.address(), func(int32) error { return nil }
	if pod := w.pod; w.node.shared(pod) {
		host, check = "127.0.0.1", func(port int32) error { return w.node.reaches(pod, port) }
	}
	return probe.Target{Host: host, Ports: ctr.Ports, Check: check, Exec: func(ctx context.Context, argv []string) (int, string, error) {
		var out head
		code, err := p.Exec(ctx, process.ExecOptions{Argv: argv, Stdout: &out, Stderr: &out})
		return code, out.String(), err
	}}
}

// address is the pod's address.
func (w *worker) address() string {
	if w.place != nil {
		return w.place.ip
	}
	return w.pod.Status.PodIP
}

// runHook runs a lifecycle hook once.
func runHook(ctx context.Context, hook *corev1.LifecycleHandler, p *process.Process, target probe.Target) error {
	switch {
	case hook.Exec != nil:
		code, output, err := target.Exec(ctx, hook.Exec.Command)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("the command ended with exit code %d: %s", code, output)
		}
	case hook.HTTPGet != nil:
		return probe.Get(ctx, hook.HTTPGet, target)
	case hook.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Done():
		case <-time.After(time.Duration(hook.Sleep.Seconds) * time.Second):
		}
	}
	return nil
}

// head keeps the beginning of what is written to it. Writers may be
// concurrent: a command's two streams are.
type head struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const headBytes = 1024

// Write keeps what still fits.
func (h *head) Write(data []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := headBytes - h.buf.Len(); room > 0 {
		h.buf.Write(data[:min(room, len(data))])
	}
	return len(data), nil
}

// String is what was kept.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

var _ io.Writer = (*head)(nil)
