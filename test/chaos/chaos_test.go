//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

const (
	// workers hold a GPU each; a gang has a parameter server besides.
	workers = 3
	// live is how many gangs there are at once: some more than fit.
	live = 6
	// gpus are those of all nodes together.
	gpus = 12
	// patience bounds whatever must come about after a kill.
	patience = 2 * time.Minute
)

// script is what a member runs. It says in a file when it begins and ends, and
// leaves a process behind that has left its session; a parameter server would
// go on for long.
const script = `echo "$ROLE-$INDEX" >> "$BOOK/%[1]s.began"
setsid sleep 1000 &
case "$ROLE" in ps) exec sleep 1000;; esac
sleep 1.5
echo "$ROLE-$INDEX" >> "$BOOK/%[1]s.ended"`

// TestChaos lets gangs come and go, two thirds of them whole lives and the
// rest deleted on the way, kills one part of the cluster after the other, and
// looks from outside. No device ever has two users; within patience of each
// kill no gang is partial and no process without a pod; every job that was
// accepted runs to its end; and then nothing at all is left, and a job that
// needs every GPU gets them.
func TestChaos(t *testing.T) {
	total := number("MUSTER_CHAOS_GANGS", 24)
	seed := uint64(number("MUSTER_CHAOS_SEED", int(time.Now().UnixNano())))
	t.Logf("MUSTER_CHAOS_SEED=%d", seed)
	w := newWorld(t, seed)
	looks := w.observe()
	for w.started < total || len(w.jobs) > 0 {
		w.fill(total)
		w.strike()
		w.settle()
		w.collect()
	}
	looks()
	w.nothingLeft()
	w.allAtOnce()
	t.Logf("%d gangs: %d ran to their end, %d deleted on the way; killed: %v; %d looks; restarts of attempts: %d; longest until all was settled: %.1f s",
		w.started, w.ended, w.deleted, w.killed, w.looks, w.restarts, w.longest.Seconds())
	t.Logf("observed: 0 partial gangs after settling, %d double grants, 0 leaks", len(w.doubles))
}

func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// world is one run.
type world struct {
	*testing.T
	platform
	random *rand.Rand
	// token marks every process of the run; book is where members write.
	token, book string
	// jobs are those that were accepted and are not done with; doomed are
	// being deleted.
	jobs, doomed map[string]bool

	started, ended, deleted int
	restarts                int32
	killed                  map[string]int
	longest                 time.Duration

	mu      sync.Mutex
	looks   int
	doubles []string
	// devices are those that were ever seen with a user.
	devices map[string]bool
}

// observe looks for devices with two users until it is told to stop.
func (w *world) observe() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			user, twice := granted(members(w.token))
			w.mu.Lock()
			w.looks++
			w.doubles = append(w.doubles, twice...)
			for device := range user {
				w.devices[device] = true
			}
			w.mu.Unlock()
		}
	})
	return func() {
		cancel()
		group.Wait()
		if len(w.doubles) > 0 {
			w.Errorf("%d times a device had two users, first: %s", len(w.doubles), w.doubles[0])
		}
		if len(w.devices) < workers {
			w.Errorf("in %d looks %d devices were seen with a user: nothing was found out about them", w.looks, len(w.devices))
		}
	}
}

// fill submits jobs until there are enough, and now and then deletes one. The
// API server may be away: what it did not accept does not count.
func (w *world) fill(total int) {
	w.Helper()
	names := slices.Sorted(maps.Keys(w.jobs))
	if len(names) > 0 && w.random.IntN(3) == 0 {
		name := names[w.random.IntN(len(names))]
		if w.delete(name) == nil {
			w.doomed[name] = true
		}
	}
	for len(w.jobs) < live && w.started < total {
		name := fmt.Sprintf("g%d", w.started)
		if err := w.api.Create(w.Context(), w.gang(name)); err != nil {
			return
		}
		w.started++
		w.jobs[name] = true
	}
}

func (w *world) delete(name string) error {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	return client.IgnoreNotFound(w.api.Delete(w.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// strike kills something at a random moment, and sees that it starts again.
func (w *world) strike() {
	w.Helper()
	moment := time.NewTimer(time.Duration(w.random.IntN(3000)) * time.Millisecond)
	select {
	case <-moment.C:
	case <-w.Context().Done():
		return
	}
	victims := []string{"manager", "manager", "etcd", "kube-apiserver", "node-1/kubelet", "node-2/kubelet", "node-1/containerd", "node-2/containerd"}
	victim := victims[w.random.IntN(len(victims))]
	w.killed[victim]++
	var err error
	if victim == "manager" {
		err = w.killManager()
	} else {
		err = w.cluster.Restart(w.Context(), victim)
	}
	if err != nil {
		w.Fatalf("killing %s: %v", victim, err)
	}
}

// killManager kills the processes of one of the managers, or of all, and
// removes their pods, lest the kubelet waits longer each time before it starts
// them again.
func (w *world) killManager() error {
	all := managers()
	if w.random.IntN(2) == 0 {
		all = all[:min(1, len(all))]
	}
	now := int64(0)
	for _, p := range all {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("killing %s: %w", p, err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: p.Variable("HOSTNAME")}}
		if err := w.api.Delete(w.Context(), pod, &client.DeleteOptions{GracePeriodSeconds: &now}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the pod of %s: %w", p, err)
		}
	}
	return nil
}

// settle waits until no gang is partial and every process has a pod.
func (w *world) settle() {
	w.Helper()
	began := time.Now()
	harness.Eventually(w, patience, "waiting until no gang is partial and no process without a pod", w.whole)
	w.longest = max(w.longest, time.Since(began))
}

// whole tells what is not as it must be.
func (w *world) whole() error {
	seen := members(w.token) // before the pods: what ends meanwhile has ended
	pods := &corev1.PodList{}
	if err := w.api.List(w.Context(), pods, client.InNamespace(w.ns)); err != nil {
		return err
	}
	of, lives := map[string]int{}, map[string]bool{}
	for _, pod := range pods.Items {
		of[pod.Labels[v1alpha1.LabelJob]]++
		lives[pod.Name] = pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	}
	for pod, all := range seen {
		if !lives[pod] {
			return fmt.Errorf("%s is not in the API or has ended, and has %d processes, the first %s", pod, len(all), all[0])
		}
	}
	for job, n := range of {
		if n == workers+1 || w.over(job) {
			continue
		}
		return fmt.Errorf("gang %s has %d of %d pods", job, n, workers+1)
	}
	return nil
}

// over reports whether a job has ended or is being deleted: its pods go one by
// one.
func (w *world) over(name string) bool {
	job := &v1alpha1.TrainingJob{}
	err := w.api.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, job)
	return err != nil || job.DeletionTimestamp != nil || w.doomed[name] ||
		job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed
}

// collect looks at the jobs that are done with.
func (w *world) collect() {
	w.Helper()
	for name := range w.jobs {
		job := &v1alpha1.TrainingJob{}
		err := w.api.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, job)
		switch {
		case client.IgnoreNotFound(err) != nil: // the API server is away
		case err != nil && w.doomed[name]:
			w.deleted++
			delete(w.jobs, name)
		case err != nil:
			w.Errorf("%s was accepted, and is lost", name)
			delete(w.jobs, name)
		case w.doomed[name]:
		case job.Status.Phase == v1alpha1.JobFailed:
			w.Fatalf("%s has failed: %s", name, job.Status.Message)
		case job.Status.Phase == v1alpha1.JobSucceeded:
			w.inspect(job)
			if w.delete(name) == nil {
				w.ended++
				delete(w.jobs, name)
				w.doomed[name] = true
			}
		}
	}
}

// inspect compares what the members of a job wrote with what it says.
func (w *world) inspect(job *v1alpha1.TrainingJob) {
	w.Helper()
	gang := &v1alpha1.Gang{}
	if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(job), gang); err != nil {
		return // the API server is away, or the gang is gone: there is nothing to compare with
	}
	w.restarts += job.Status.Restarts
	began, ended := w.read(job.Name+".began"), w.read(job.Name+".ended")
	for i := range workers {
		name := fmt.Sprintf("worker-%d", i)
		if ended[name] == 0 {
			w.Errorf("%s has succeeded, and its %s never came to its end", job.Name, name)
		}
		// What a kill of the runtime cuts off is begun again.
		if most := int(gang.Status.Attempt + gang.Status.Restarts); began[name] > most {
			w.Errorf("%s: %s began %d times in %d attempts", job.Name, name, began[name], most)
		}
	}
}

// read counts the members in a file of the book.
func (w *world) read(name string) map[string]int {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.book, name))
	if err != nil {
		w.Errorf("reading what members wrote: %v", err)
	}
	out := map[string]int{}
	for member := range strings.FieldsSeq(string(data)) {
		out[member]++
	}
	return out
}

// nothingLeft waits until nothing is left in the API and on the machine.
func (w *world) nothingLeft() {
	w.Helper()
	harness.Eventually(w, patience, "waiting until nothing is left", func() error {
		for pod, all := range members(w.token) {
			return fmt.Errorf("%s has %d processes, the first %s", pod, len(all), all[0])
		}
		return harness.NoObjects(w.Context(), w.api, w.ns, &v1alpha1.TrainingJobList{}, &v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &corev1.PodList{}, &corev1.ServiceList{})
	})
}

// allAtOnce is the proof that no GPU is held by nobody.
func (w *world) allAtOnce() {
	w.Helper()
	job := w.gang("all")
	n := int32(gpus)
	job.Spec.Roles = job.Spec.Roles[:1]
	job.Spec.Roles[0].Replicas, job.Spec.Roles[0].Command = &n, []string{"true"}
	// An API server that was killed last refuses jobs until its policies know their kind.
	harness.Eventually(w, patience, "submitting a job that needs every GPU", func() error {
		return client.IgnoreAlreadyExists(w.api.Create(w.Context(), job))
	})
	harness.Eventually(w, patience, "waiting for a job that needs every GPU", func() error {
		if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Phase != v1alpha1.JobSucceeded {
			return fmt.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
		}
		return nil
	})
}
