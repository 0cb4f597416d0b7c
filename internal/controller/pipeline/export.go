package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/dataset/egress"
	"github.com/muster-dev/muster/internal/pipeline"
)

const (
	// exportTries is how often an output is copied before the run fails.
	exportTries = 6
	// exportPause is the pause after the first try; each one after is twice as long.
	exportPause = 5 * time.Second
	// longestTrouble is how long the words may be for what went wrong.
	longestTrouble = 1024
)

// exports are the copies that are being made in this process, by the names of their
// works.
type exports struct {
	mu    sync.Mutex
	group sync.WaitGroup
	going map[string]*export
	turns turns
}

// Egress says how outputs are copied elsewhere, where those who say where to are not
// those whose network it is.
type Egress struct {
	// Off says that none are.
	Off bool
	// AtOnce is how many copies are made at a time, one of each namespace. 0: all.
	AtOnce int
	// Copies says how each is made.
	Copies egress.Options
}

// rules are those of copies.
func (m *Machine) rules() Egress {
	if m.Egress == nil {
		return Egress{}
	}
	return *m.Egress
}

// exporting says that the output of a stage is still being copied.
func exporting(s *v1alpha1.StageStatus) bool { return s.Egress != nil && !Ended(s.Egress.Phase) }

// export is one copy.
type export struct {
	cancel context.CancelFunc
	// since is when it ended; zero: it has not.
	since  time.Time
	copied egress.Copied
	err    error
}

// export has the output of a stage copied that is committed, if the stage says so,
// and says when to look again.
func (c *Runs) export(ctx context.Context, s *step) (time.Duration, error) {
	out := s.stage.Spec.Output
	if s.status.Phase != v1alpha1.RunSucceeded || out == nil || out.Egress == "" || s.status.Output == nil {
		return 0, nil
	}
	if s.status.Egress == nil {
		s.status.Egress = &v1alpha1.EgressStatus{To: out.Egress, Commit: s.status.Output.Commit, Phase: v1alpha1.RunRunning}
	}
	status := s.status.Egress
	if Ended(status.Phase) {
		return 0, nil
	}
	name := workName(s.run, s.stage.Name)
	c.exports.mu.Lock()
	defer c.exports.mu.Unlock()
	e := c.exports.going[name]
	if e != nil && e.since.IsZero() {
		status.Message = fmt.Sprintf("is being copied to %s", status.To)
		return leaving, nil
	}
	if e != nil && e.err == nil {
		delete(c.exports.going, name)
		status.Phase, status.Files, status.Bytes, status.Tries = v1alpha1.RunSucceeded, e.copied.Files, e.copied.Bytes, status.Tries+1
		status.Message = fmt.Sprintf("%d files of %d bytes copied to %s", e.copied.Files, e.copied.Bytes, status.To)
		if e.copied.Links > 0 {
			status.Message += fmt.Sprintf(", without %d links", e.copied.Links)
		}
		return 0, nil
	}
	if e != nil {
		if wait, over := c.retry(name, e, status); over || wait > 0 {
			return wait, nil
		}
	}
	c.exports.turns.atOnce = c.deps.Machine.rules().AtOnce
	if !c.exports.turns.want(name, s.run.Namespace) {
		status.Message = fmt.Sprintf("waits to be copied to %s: other copies are made first", status.To)
		return leaving, nil
	}
	before, err := c.exported(ctx, s)
	if err != nil {
		c.wake(c.exports.turns.done(name))
		return 0, err
	}
	c.copy(s, name, before)
	return leaving, nil
}

// wake has runs be looked at whose copies may begin.
func (c *Runs) wake(names []string) {
	for _, name := range names {
		c.desk.board.Post(name)
	}
}

// retry says when a copy that failed is made again, if it is.
func (c *Runs) retry(name string, e *export, status *v1alpha1.EgressStatus) (wait time.Duration, over bool) {
	says := e.err.Error() // of which a bucket may say as much as it likes
	if len(says) > longestTrouble {
		says = strings.ToValidUTF8(says[:longestTrouble], "") + "..."
	}
	status.Message = fmt.Sprintf("copying to %s: %s", status.To, says)
	if _, again, ok := soon(e.err); ok { // which is no try
		if wait = again - c.deps.Now().Sub(e.since); wait <= 0 {
			delete(c.exports.going, name)
		}
		return max(wait, 0), false
	}
	if wait = exportPause<<status.Tries - c.deps.Now().Sub(e.since); wait > 0 && status.Tries+1 < exportTries {
		status.Message += fmt.Sprintf("; try %d of %d comes after a pause", status.Tries+2, exportTries)
		return wait, false
	}
	delete(c.exports.going, name)
	if status.Tries++; status.Tries >= exportTries {
		status.Phase = v1alpha1.RunFailed
		return 0, true
	}
	return 0, false
}

// exported is the commit that the run before copied to the same place; empty: none.
func (c *Runs) exported(ctx context.Context, s *step) (string, error) {
	list := &v1alpha1.PipelineRunList{}
	if err := c.client.List(ctx, list, client.InNamespace(s.run.Namespace)); err != nil {
		return "", fmt.Errorf("listing runs: %w", err)
	}
	var last *v1alpha1.PipelineRun
	commit := ""
	for i := range list.Items {
		run := &list.Items[i]
		if run.Spec.Pipeline != s.run.Spec.Pipeline || run.UID == s.run.UID || pipeline.Order(run, s.run) > 0 || last != nil && pipeline.Order(run, last) < 0 {
			continue
		}
		for k := range run.Status.Stages {
			e := run.Status.Stages[k].Egress
			if run.Status.Stages[k].Name == s.stage.Name && e != nil && e.To == s.status.Egress.To {
				last, commit = run, ""
				if e.Phase == v1alpha1.RunSucceeded {
					commit = e.Commit
				}
			}
		}
	}
	return commit, nil
}

// copy begins a copy; the caller holds the lock.
func (c *Runs) copy(s *step, name, before string) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &export{cancel: cancel}
	c.exports.going[name] = e
	status, secret := *s.status.Egress, s.stage.Spec.Output.EgressSecret
	if secret == "" {
		secret = egress.DefaultSecret
	}
	output := types.NamespacedName{Namespace: s.run.Namespace, Name: s.status.Output.Dataset}
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: secret}
	c.exports.group.Go(func() {
		defer cancel()
		copied, err := c.send(ctx, output, key, status, before)
		c.exports.mu.Lock()
		e.copied, e.err, e.since = copied, err, c.deps.Now()
		next := c.exports.turns.done(name)
		c.exports.mu.Unlock()
		c.desk.board.Post(name)
		c.wake(next)
	})
}

// send makes one copy.
func (c *Runs) send(ctx context.Context, from, secret types.NamespacedName, status v1alpha1.EgressStatus, before string) (egress.Copied, error) {
	var none egress.Copied
	said := &corev1.Secret{}
	if err := c.live.Get(ctx, secret, said); apierrors.IsNotFound(err) {
		return none, fmt.Errorf("there is no Secret %s that says who copies: `kubectl create secret generic %[1]s --from-literal=%s=... --from-literal=%s=...`, or name another with egressSecret", secret.Name, egress.KeyAccess, egress.KeySecret)
	} else if apierrors.IsForbidden(err) {
		return none, forbidden(secret.Namespace, "Secret", secret.Name)
	} else if err != nil {
		return none, fmt.Errorf("reading Secret %s: %w", secret.Name, err)
	}
	target, err := egress.Open(status.To, said.Data, c.deps.Machine.rules().Copies)
	if err != nil {
		return none, fmt.Errorf("with Secret %s: %w", secret.Name, err)
	}
	store, err := c.deps.Machine.Store(ctx, from.Namespace)
	if err != nil {
		return none, fmt.Errorf("opening the store of data: %w", err)
	}
	output := store.Dataset(&dataset.Heads{Client: c.live, Namespace: from.Namespace, Name: from.Name})
	now, err := output.At(ctx, status.Commit)
	if err != nil {
		return none, fmt.Errorf("reading what is to be copied: %w", err)
	}
	lease, err := store.Pin(ctx, now.Commit().ID)
	if err != nil {
		return none, err
	}
	var was *data.View
	if before != "" {
		if was, err = output.At(ctx, before); errors.Is(err, fs.ErrNotExist) {
			was, err = nil, nil // then all of it is copied
		}
	}
	var copied egress.Copied
	if err == nil {
		copied, err = target.Copy(ctx, was, now)
	}
	return copied, errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
}

// stopExports ends the copies of a run.
func (c *Runs) stopExports(of types.UID) {
	c.exports.mu.Lock()
	defer c.exports.mu.Unlock()
	for _, name := range c.endExports(func(name string) bool {
		uid, _, _ := strings.Cut(name, ".")
		return uid == string(of)
	}) {
		delete(c.exports.going, name)
	}
}

// stopAllExports ends the copies of all runs, and waits for them.
func (c *Runs) stopAllExports() {
	c.exports.mu.Lock()
	c.endExports(func(string) bool { return true })
	c.exports.mu.Unlock()
	c.exports.group.Wait()
}

// endExports takes the copies of these works out of the line, and ends those that are
// being made, whose names it returns; the caller holds the lock.
func (c *Runs) endExports(these func(name string) bool) (ended []string) {
	for _, w := range slices.Clone(c.exports.turns.line) {
		if these(w.name) {
			c.exports.turns.leave(w.name)
		}
	}
	c.wake(c.exports.turns.next())
	for name, e := range c.exports.going {
		if these(name) {
			e.cancel()
			ended = append(ended, name)
		}
	}
	return ended
}
