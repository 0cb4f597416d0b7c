package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Target is the container that is asked.
type Target struct {
	// Host is the address that its ports are reached at.
	Host string
	// Ports are its named ports.
	Ports []corev1.ContainerPort
	// Check refuses a port of the host that is not the pod's; nil: the host has no others.
	Check func(port int32) error
	// Exec runs a command in it and returns its exit code and the beginning
	// of its output.
	Exec func(ctx context.Context, argv []string) (code int, output string, err error)
}

// Verdict is what a probe found, once its thresholds are reached.
type Verdict struct {
	// Healthy is the verdict.
	Healthy bool
	// Message is the last failing answer.
	Message string
}

// After is a clock's timer: time.After, but in tests.
type After func(time.Duration) <-chan time.Time

// Watch asks as the probe says and reports each change of the verdict, from
// unknown at first, until ctx ends or report returns false.
func Watch(ctx context.Context, p *corev1.Probe, target Target, after After, report func(Verdict) bool) {
	period := time.Duration(max(p.PeriodSeconds, 1)) * time.Second
	wait := time.Duration(p.InitialDelaySeconds) * time.Second
	t := tally{successes: max(p.SuccessThreshold, 1), failures: max(p.FailureThreshold, 1)}
	for {
		if wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-after(wait):
			}
		}
		wait = period
		err := Ask(ctx, p, target)
		if ctx.Err() != nil {
			return
		}
		if verdict, changed := t.count(err); changed && !report(verdict) {
			return
		}
	}
}

// tally turns answers into verdicts.
type tally struct {
	successes, failures int32 // thresholds
	run                 int32 // equal answers in a row
	last                bool
	verdict             *bool
}

// count adds an answer and says whether the verdict changed.
func (t *tally) count(err error) (Verdict, bool) {
	healthy := err == nil
	if healthy != t.last {
		t.run = 0
	}
	t.last = healthy
	t.run++
	threshold := t.failures
	if healthy {
		threshold = t.successes
	}
	if t.run < threshold || (t.verdict != nil && *t.verdict == healthy) {
		return Verdict{}, false
	}
	t.verdict = &healthy
	v := Verdict{Healthy: healthy}
	if err != nil {
		v.Message = err.Error()
	}
	return v, true
}

// Ask asks once; nil means well.
func Ask(ctx context.Context, p *corev1.Probe, target Target) error {
	timeout := time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case p.Exec != nil:
		return command(ctx, p.Exec.Command, target, timeout)
	case p.HTTPGet != nil:
		return Get(ctx, p.HTTPGet, target)
	case p.TCPSocket != nil:
		return connect(ctx, p.TCPSocket, target)
	}
	return fmt.Errorf("the probe has no handler that this node knows")
}

func command(ctx context.Context, argv []string, target Target, timeout time.Duration) error {
	code, output, err := target.Exec(ctx, argv)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the command did not end within %v", timeout)
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("the command ended with exit code %d: %s", code, output)
	}
	return nil
}

func connect(ctx context.Context, action *corev1.TCPSocketAction, target Target) error {
	address, err := address(action.Host, action.Port, target)
	if err != nil {
		return err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// address resolves a probe's host and port. The node asks with its own rights, so it reaches no other
// host than the pod's, and no ports of others.
func address(host string, port intstr.IntOrString, target Target) (string, error) {
	if host != "" && host != target.Host && (host != "localhost" || target.Host != "127.0.0.1") {
		return "", fmt.Errorf("the host %q is not the pod's own address: leave host out", host)
	}
	number := int(port.IntVal)
	if port.Type == intstr.String {
		var err error
		if number, err = named(port.StrVal, target.Ports); err != nil {
			return "", err
		}
	}
	if target.Check != nil {
		if err := target.Check(int32(number)); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(target.Host, strconv.Itoa(number)), nil
}

func named(name string, ports []corev1.ContainerPort) (int, error) {
	for _, p := range ports {
		if p.Name == name {
			return int(p.ContainerPort), nil
		}
	}
	if number, err := strconv.ParseUint(name, 10, 16); err == nil {
		return int(number), nil
	}
	return 0, fmt.Errorf("the container has no port named %q", name)
}

// Get sends an HTTP request; answers from 200 to 399 are well.
func Get(ctx context.Context, action *corev1.HTTPGetAction, target Target) error {
	at, err := address(action.Host, action.Port, target)
	if err != nil {
		return err
	}
	request, err := newRequest(ctx, action, at)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	return nil
}
