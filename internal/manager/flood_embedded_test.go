//go:build embedded

package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/manager"
)

const (
	// flood is the number of jobs of one user: the quota of `muster user add`.
	flood = 2000
	// longestDuring and longestAfter bound the median time until a job of another user starts,
	// while the user submits the flood, and while the jobs of the flood wait.
	longestDuring = 30 * time.Second
	longestAfter  = 5 * time.Second
	// longestCommit bounds the median time of a commit of another user.
	longestCommit = 10 * time.Second
	// clients is the number of clients of the user who makes a flood.
	clients = 8
)

// TestAFloodOfOneUser lets a user submit as many jobs as the quota allows. No node has room for
// them. Jobs of another user start meanwhile. After the last submission they start as soon as
// before. While the same clients make objects that no controller of Muster watches, only the API
// server and the clients delay a job.
func TestAFloodOfOneUser(t *testing.T) {
	s := newStage(t)
	s.Node("a", 4, true)
	s.heartbeats("a")
	// The process may wait for a core for longer than a lease lasts.
	s.runWith("one", func(o *manager.Options) { o.Alone = true })
	s.namespaces("eve", "ada")
	seen := s.observe("ada")
	before := s.starts(seen, "before")
	var during, after, server steps
	s.flooded(func(ctx context.Context, k int) error {
		for i := range flood / clients {
			if err := s.api.Create(ctx, small("eve", fmt.Sprintf("job-%d-%d", k, i), "99")); err != nil {
				return err
			}
		}
		return nil
	}, func(context.CancelFunc) { during = s.starts(seen, "during") })
	after = s.starts(seen, "after")
	s.flooded(s.objects, func(stop context.CancelFunc) {
		server = s.starts(seen, "server")
		stop()
	})
	t.Logf("a job of another user, before %d jobs: %s", flood, before)
	t.Logf("while they are submitted: %s", during)
	t.Logf("while they wait: %s", after)
	t.Logf("while objects are made that Muster does not watch: %s", server)
	if during.pod > longestDuring || after.pod > longestAfter {
		t.Errorf("a job of another user starts %s after it is submitted during the flood, and %s after the flood; at most %s and %s are allowed", during.pod, after.pod, longestDuring, longestAfter)
	}
}

// objects makes secrets of the size of a job and removes them, until the context ends.
func (s *stage) objects(ctx context.Context, k int) error {
	for i := 0; ctx.Err() == nil; i++ {
		o := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "eve", Name: fmt.Sprintf("object-%d-%d", k, i)},
			Data:       map[string][]byte{"data": make([]byte, 1<<10)},
		}
		if err := s.api.Create(ctx, o); err != nil {
			return err
		}
		if err := s.api.Delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// TestAFloodOfCommits lets a user make commits of one dataset as fast as possible, on a branch
// for each client. Commits of another user go on.
func TestAFloodOfCommits(t *testing.T) {
	s := newStage(t)
	s.namespaces("eve", "ada")
	for _, namespace := range []string{"eve", "ada"} {
		if err := s.api.Create(t.Context(), &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"}}); err != nil {
			t.Fatal(err)
		}
	}
	const each = 40
	ada := &commits{heads: s.heads("ada"), branch: "main"}
	before := ada.median(t, each)
	var during time.Duration
	var mu sync.Mutex
	made, began := 0, time.Now()
	s.flooded(func(ctx context.Context, k int) error {
		eve := &commits{heads: s.heads("eve"), branch: fmt.Sprint("b", k)}
		for ctx.Err() == nil {
			if err := eve.commit(ctx); err != nil {
				return err
			}
			mu.Lock()
			made++
			mu.Unlock()
		}
		return nil
	}, func(stop context.CancelFunc) {
		during = ada.median(t, each)
		stop()
	})
	t.Logf("a commit of another user takes %s, and %s while one user makes %.0f commits a second", before, during, float64(made)/time.Since(began).Seconds())
	if during > longestCommit {
		t.Errorf("a commit takes %s during a flood of commits of another user, want at most %s", during, longestCommit)
	}
}

func (s *stage) heads(namespace string) *dataset.Heads {
	return &dataset.Heads{Client: s.api, Namespace: namespace, Name: "data"}
}

// commits moves a branch from commit to commit.
type commits struct {
	heads  *dataset.Heads
	branch string
	at     digest.ID
	n      int
}

func (c *commits) commit(ctx context.Context) error {
	c.n++
	next := digest.Of(fmt.Append(nil, c.branch, c.n))
	err := c.heads.Swap(ctx, ref.Name{Kind: ref.Branch, Name: c.branch}.Move(c.at, next))
	c.at = next
	return err
}

func (c *commits) median(t *testing.T, n int) time.Duration {
	t.Helper()
	return median(n, func(int) time.Duration {
		began := time.Now()
		if err := c.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	})
}

func median(n int, measure func(i int) time.Duration) time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		took[i] = measure(i)
	}
	slices.Sort(took)
	return took[n/2].Round(10 * time.Microsecond)
}

// flooded runs clients of one user during a measurement, and logs the number of cores that the API
// server, the manager and all clients used.
func (s *stage) flooded(submit func(ctx context.Context, k int) error, measure func(stop context.CancelFunc)) {
	s.t.Helper()
	within, stop := context.WithCancel(s.t.Context())
	defer stop()
	used, began := cpuTime(s.t), time.Now()
	group, ctx := errgroup.WithContext(within)
	for k := range clients {
		group.Go(func() error {
			if err := submit(ctx, k); err != nil && within.Err() == nil {
				return fmt.Errorf("client %d: %w", k, err)
			}
			return nil
		})
	}
	measure(stop)
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
	took := time.Since(began)
	s.t.Logf("the flood took %s and %.2f cores", took.Round(time.Millisecond), float64(cpuTime(s.t)-used)/float64(took))
}

// cpuTime is the CPU time of this process, with the manager and all clients, and of its
// children, among them the API server.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	pids := []string{"self"}
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all platforms of Muster
	var sum time.Duration
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			continue // the process ended
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		for _, field := range strings.Fields(fields)[11:13] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// heartbeats renews the status of a node until the test ends, as a kubelet does: after 50 s
// without, the node is not ready, and a busy machine needs longer.
func (s *stage) heartbeats(node string) {
	s.t.Helper()
	var renewing sync.WaitGroup
	ctx, stop := context.WithCancel(s.t.Context())
	s.t.Cleanup(func() {
		stop()
		renewing.Wait()
	})
	renewing.Go(func() {
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			text := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
			if err := s.api.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, []byte(text))); err != nil && ctx.Err() == nil {
				s.t.Errorf("renewing the status of node %s: %v", node, err)
			}
		}
	})
}

func (s *stage) namespaces(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.api.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// small is a job of one member with so many GPUs.
func small(namespace, name, gpus string) *v1alpha1.TrainingJob {
	q := resource.MustParse(gpus)
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Environment: &v1alpha1.Environment{Image: "python:3.13"}, Checkpoints: &v1alpha1.Checkpoints{None: true},
			Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}, GPUs: &q}},
		},
	}
}

// sightings are the times at which the watches first showed objects of the jobs of a namespace.
type sightings struct {
	mu sync.Mutex
	at map[string]time.Time
	// changed has an element after a new sighting.
	changed chan struct{}
}

// observe watches the gangs, placements and pods of a namespace until the test ends.
func (s *stage) observe(namespace string) *sightings {
	s.t.Helper()
	seen := &sightings{at: map[string]time.Time{}, changed: make(chan struct{}, 1)}
	var watching sync.WaitGroup
	ctx, stop := context.WithCancel(s.t.Context())
	s.t.Cleanup(func() {
		stop()
		watching.Wait()
	})
	for kind, list := range map[string]client.ObjectList{"gang": &v1alpha1.GangList{}, "placement": &v1alpha1.PlacementList{}, "pod": &corev1.PodList{}} {
		changes, err := s.api.Watch(ctx, list, client.InNamespace(namespace))
		if err != nil {
			s.t.Fatal(err)
		}
		watching.Go(func() {
			for event := range changes.ResultChan() {
				if o, ok := event.Object.(client.Object); ok {
					seen.note(kind + " " + o.GetLabels()[v1alpha1.LabelJob])
				}
			}
		})
	}
	return seen
}

func (o *sightings) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at[what].IsZero() {
		o.at[what] = time.Now()
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// await waits until the watches show an object, and returns the time of the sighting.
func (o *sightings) await(t *testing.T, what string) time.Time {
	t.Helper()
	late := time.After(time.Minute)
	for {
		o.mu.Lock()
		at := o.at[what]
		o.mu.Unlock()
		if !at.IsZero() {
			return at
		}
		select {
		case <-o.changed:
		case <-late:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// steps are the median times from the submission of a job to each later step.
type steps struct{ accepted, gang, placement, pod time.Duration }

func (s steps) String() string {
	return fmt.Sprintf("accepted after %s, gang after %s, placement after %s, pod after %s", s.accepted, s.gang, s.placement, s.pod)
}

// starts submits jobs that find room, one after the other.
func (s *stage) starts(seen *sightings, name string) (out steps) {
	s.t.Helper()
	const jobs = 9
	var accepted, gang, placement [jobs]time.Duration
	out.pod = median(jobs, func(i int) time.Duration {
		job := small("ada", fmt.Sprintf("%s-%d", name, i), "0")
		began := time.Now()
		if err := s.api.Create(s.t.Context(), job); err != nil {
			s.t.Fatal(err)
		}
		accepted[i] = time.Since(began)
		gang[i] = seen.await(s.t, "gang "+job.Name).Sub(began)
		placement[i] = seen.await(s.t, "placement "+job.Name).Sub(began)
		return seen.await(s.t, "pod "+job.Name).Sub(began)
	})
	for of, times := range map[*time.Duration][jobs]time.Duration{&out.accepted: accepted, &out.gang: gang, &out.placement: placement} {
		*of = median(jobs, func(i int) time.Duration { return times[i] })
	}
	return out
}
