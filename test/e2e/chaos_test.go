//go:build e2e

package e2e

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

const (
	// chaosLive is how many jobs there are at most: one more than fit.
	chaosLive = 3
	// chaosWorkers and chaosMembers are the members of a job that hold a GPU,
	// and all members.
	chaosWorkers, chaosMembers = 3, 4
	// chaosDrain is how many kills there are between two moments at which
	// nothing at all must be left.
	chaosDrain = 10
	// chaosPatience bounds whatever must come about after a kill.
	chaosPatience = 60 * time.Second
)

// chaosScript is what each member of a job runs. It says in a file when it
// begins and ends, leaves a process behind that has left its session, and as a
// parameter server would go on for long.
const chaosScript = `echo "$ROLE-$INDEX" >> "$MUSTER_CHECKPOINT_DIR/began"
setsid sleep 1000 &
case "$ROLE" in ps) exec sleep 1000;; esac
sleep 1.5
echo "$ROLE-$INDEX" >> "$MUSTER_CHECKPOINT_DIR/ended"`

// TestChaos kills Muster at random moments, while jobs are being submitted,
// placed, started, finished and deleted, and looks from outside: at the pods
// in the API, at /proc, at /proc/locks, and at what the members themselves
// wrote. After every kill no gang is partial, no device has two users and no
// process belongs to nobody; every job that was accepted runs each of its
// members exactly once; and after every tenth, when all jobs have ended, no
// process and no lock is left, and a job that needs every GPU gets them.
//
// MUSTER_CHAOS_KILLS says how many kills in each tier, default 2;
// MUSTER_CHAOS_SEED repeats the choices of an earlier run.
func TestChaos(t *testing.T) {
	kills := 2
	if n, err := strconv.Atoi(os.Getenv("MUSTER_CHAOS_KILLS")); err == nil {
		kills = n
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("MUSTER_CHAOS_SEED"), 10, 64); err == nil {
		seed = n
	}
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		t.Logf("MUSTER_CHAOS_SEED=%d", seed)
		c := &chaos{
			T: t, m: m, ns: m.Namespace(t), token: fmt.Sprintf("CHAOS=%s-%d", t.Name(), seed),
			ctx:    deadline(t, time.Duration(kills+4)*time.Minute),
			dir:    folder(t, map[string]string{"a": ""}),
			random: rand.New(rand.NewPCG(seed, 0)),
			jobs:   map[string]fate{}, devices: map[string]bool{}, killed: map[victim]int{},
		}
		t.Cleanup(c.tellLogs)
		c.run(kills)
		t.Logf("%d kills (%v): %d jobs ended with each member run once, %d deleted on the way, %d submissions and deletions were cut off; slowest start %.1f s",
			kills, c.killed, c.finished, c.deleted, c.cutOff, c.slowest.Seconds())
	})
}

// tellLogs shows the ends of Muster's logs if the test has failed.
func (c *chaos) tellLogs() {
	if !c.Failed() {
		return
	}
	for _, name := range []string{"muster.log", "control-plane.log"} {
		log := content(filepath.Join(c.m.Home, name))
		c.Logf("%s ends:\n%s", name, log[max(0, len(log)-6000):])
	}
}

// victim says what a kill hits.
type victim string

const (
	everything   victim = "everything"
	supervisor   victim = "muster up"
	controlPlane victim = "the control plane"
)

// fate is what is known of a job.
type fate int

const (
	// accepted: the command that submitted it said so.
	accepted fate = iota
	// unsure: that command failed; the job may exist.
	unsure
	// doomed: it is being deleted.
	doomed
)

// chaos is one run of the test.
type chaos struct {
	*testing.T
	m      *harness.Muster
	ctx    context.Context
	ns     string
	dir    string
	token  string
	random *rand.Rand
	names  int
	// devices are the GPUs that any pod was seen with.
	devices map[string]bool

	mu   sync.Mutex
	jobs map[string]fate

	killed map[victim]int
	// inARow counts the last kills that hit the control plane alone.
	inARow                    int
	finished, deleted, cutOff int
	slowest                   time.Duration
}

// run is a procedure: 1. commands are under way, 2. something is killed at a
// random moment, 3. it starts again, 4. all is as it must be.
func (c *chaos) run(kills int) {
	for kill := range kills {
		commands := c.command()
		// Half of them while commands are under way.
		reach := []int{600, 2500}[c.random.IntN(2)]
		moment := time.NewTimer(time.Duration(c.random.IntN(reach)) * time.Millisecond)
		<-moment.C
		c.noDeviceTwice()
		target := c.choose()
		c.kill(target)
		c.start(target)
		commands.Wait()
		c.settle()
		c.collect()
		if (kill+1)%chaosDrain == 0 || kill+1 == kills {
			c.drain()
		}
		if c.Failed() {
			c.Fatalf("after kill %d, of %s", kill+1, target)
		}
		if kill%chaosDrain == 0 {
			c.Logf("kill %d: %d jobs ended well so far", kill+1, c.finished)
		}
	}
}

// choose says what is killed. A control plane that dies again and again is
// given up by its supervisor, rightly: it is spared before that.
func (c *chaos) choose() victim {
	target := []victim{everything, supervisor, controlPlane}[c.random.IntN(3)]
	if c.inARow++; target != controlPlane || c.inARow == 4 {
		c.inARow = 0
	}
	if c.inARow == 0 && target == controlPlane {
		target = everything
	}
	c.killed[target]++
	return target
}

// command submits jobs until there are enough, and now and then deletes one, at
// the same time as whatever follows.
func (c *chaos) command() *sync.WaitGroup {
	var group sync.WaitGroup
	c.mu.Lock()
	defer c.mu.Unlock()
	if names := slices.Sorted(maps.Keys(c.jobs)); len(names) > 0 && c.random.IntN(4) == 0 {
		name := names[c.random.IntN(len(names))]
		c.jobs[name] = doomed
		group.Go(func() { c.delete(name) })
	}
	for range chaosLive - len(c.jobs) {
		name := fmt.Sprintf("c%d", c.names)
		c.names++
		c.jobs[name] = unsure
		group.Go(func() { c.submit(name) })
	}
	return &group
}

func (c *chaos) submit(name string) {
	r := c.m.RunIn(c.ctx, c.dir, "-n", c.ns, "run", "--name", name, "--workers", strconv.Itoa(chaosWorkers), "--ps", "1", "--gpus", "1",
		"--cpus", "10m", "--memory", "16Mi", "--env", c.token, "--detach", "--", "sh", "-c", chaosScript)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Code != 0 {
		c.cutOff++
		return
	}
	c.jobs[name] = accepted
}

func (c *chaos) delete(name string) {
	if r := c.m.Run(c.ctx, "-n", c.ns, "delete", name); r.Code != 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cutOff++
	}
}

// kill kills what target says, and waits until it is gone.
func (c *chaos) kill(target victim) {
	c.Helper()
	verbs := map[victim][]string{everything: {"up", "control-plane"}, supervisor: {"up"}, controlPlane: {"control-plane"}}[target]
	victims := servers(c.m, verbs...)
	if len(victims) != len(verbs) {
		c.Fatalf("killing %s: found %v", target, victims)
	}
	for _, p := range victims {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
			c.Fatalf("killing %s: %v", p, err)
		}
	}
	harness.Eventually(c, chaosPatience, "waiting for the end of "+string(target), func() error {
		for _, left := range servers(c.m, verbs...) {
			if slices.ContainsFunc(victims, func(p harness.Started) bool { return p.PID == left.PID }) {
				return fmt.Errorf("%s", left)
			}
		}
		return nil
	})
}

// start starts Muster again unless it does so itself.
func (c *chaos) start(target victim) {
	c.Helper()
	began := time.Now()
	if target == controlPlane {
		harness.Eventually(c, chaosPatience, "waiting for the next control plane", func() error { return c.m.Readyz(c.ctx) })
	} else if err := c.m.Start(c.ctx); err != nil {
		c.Fatal(err)
	}
	c.slowest = max(c.slowest, time.Since(began))
}

// settle waits until no gang is partial and every process belongs to a pod
// that is in the API and has not ended.
func (c *chaos) settle() {
	c.Helper()
	harness.Eventually(c, chaosPatience, "waiting until no gang is partial and no process an orphan", func() error {
		pods, err := c.pods()
		if err != nil {
			return err
		}
		members := map[string]int{}
		live := map[types.UID]bool{}
		for _, pod := range pods {
			members[pod.Labels[v1alpha1.LabelGang]]++
			live[pod.UID] = !ended(pod)
		}
		for gang, n := range members {
			if n != chaosMembers {
				// Parameter servers go before the others when the gang is done.
				if j, err := c.job(gang); err != nil || j.Status.Phase != v1alpha1.JobSucceeded {
					return fmt.Errorf("gang %s has %d of %d pods", gang, n, chaosMembers)
				}
			}
		}
		for _, p := range c.processes() {
			if !live[podOf(p)] {
				return fmt.Errorf("the pod is not in the API or has ended, and has a process: %s", p)
			}
		}
		return nil
	})
	c.noDeviceTwice()
}

// collect looks at the jobs that have come to their end.
func (c *chaos) collect() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, known := range c.jobs {
		j, err := c.job(name)
		switch {
		case apierrors.IsNotFound(err) && known == accepted:
			c.Errorf("job %s was accepted and is lost", name)
			delete(c.jobs, name)
		case apierrors.IsNotFound(err):
			delete(c.jobs, name)
			if known == doomed {
				c.deleted++
			}
		case err != nil:
			c.Errorf("reading job %s: %v", name, err)
		case known == doomed:
			c.remove(name)
			c.deleted++
		case j.Status.Phase == v1alpha1.JobSucceeded || j.Status.Phase == v1alpha1.JobFailed:
			c.inspect(j)
			c.remove(name)
			c.finished++
		default:
			c.jobs[name] = accepted // It exists, whatever the command thought.
		}
	}
}

// inspect looks at a job that has ended: each member has begun once, and each
// worker has ended by itself.
func (c *chaos) inspect(j *v1alpha1.TrainingJob) {
	c.Helper()
	if j.Status.Phase != v1alpha1.JobSucceeded || j.Status.Restarts != 0 {
		c.Errorf("job %s is %s after %d restarts: %s", j.Name, j.Status.Phase, j.Status.Restarts, j.Status.Message)
	}
	for file, want := range map[string]int{"began": chaosMembers, "ended": chaosWorkers} {
		found, err := filepath.Glob(filepath.Join(c.m.Home, "volumes", c.ns, j.Name+"-*", "*", file))
		if err != nil || len(found) != 1 {
			c.Errorf("job %s: %d files %q, want one (%v)", j.Name, len(found), file, err)
			continue
		}
		data, err := os.ReadFile(found[0])
		if err != nil {
			c.Error(err)
		}
		lines := slices.Sorted(slices.Values(strings.Fields(string(data))))
		if len(lines) != want || len(slices.Compact(slices.Clone(lines))) != want {
			c.Errorf("job %s: %s: %v, want %d members, each once", j.Name, file, lines, want)
		}
	}
}

// remove deletes a job with a Muster that nobody kills.
func (c *chaos) remove(name string) {
	c.Helper()
	if r := c.m.Run(c.ctx, "-n", c.ns, "delete", name); r.Code != 0 {
		c.Errorf("deleting %s: %s", name, r.Stderr)
	}
	delete(c.jobs, name)
}

// drain waits until every job has ended and looks for what is left.
func (c *chaos) drain() {
	c.Helper()
	harness.Eventually(c, chaosPatience, "waiting for the last jobs", func() error {
		c.collect()
		for name := range c.jobs {
			j, err := c.job(name)
			if err != nil {
				return err
			}
			return fmt.Errorf("job %s is %s: %s", name, j.Status.Phase, j.Status.Message)
		}
		return nil
	})
	harness.Eventually(c, chaosPatience, "waiting until nothing is left", c.nothingLeft)
	// The proof that no GPU is held by nobody: all of them are given at once.
	all := fmt.Sprintf("all%d", c.names)
	c.names++
	expect(c, c.m.RunIn(c.ctx, c.dir, "-n", c.ns, "run", "--name", all, "--workers", "6", "--gpus", "1", "--cpus", "10m", "--memory", "16Mi", "--", "true"), 0)
	c.remove(all)
}

// nothingLeft tells what is left of all jobs, in the API and on the machine.
func (c *chaos) nothingLeft() error {
	for _, p := range c.processes() {
		return fmt.Errorf("a process is left: %s", p)
	}
	for _, p := range harness.Processes(c.m.Home) {
		return fmt.Errorf("a process is left: %s", p)
	}
	if err := harness.NoObjects(c.ctx, c.m.Client, c.ns, &v1alpha1.TrainingJobList{}, &v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &corev1.PodList{}); err != nil {
		return err
	}
	return gpusHeld(slices.Collect(maps.Keys(c.devices)))
}

func (c *chaos) job(name string) (*v1alpha1.TrainingJob, error) {
	var j v1alpha1.TrainingJob
	return &j, c.m.Client.Get(c.ctx, client.ObjectKey{Namespace: c.ns, Name: name}, &j)
}

func (c *chaos) pods() ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.m.Client.List(c.ctx, &list, client.InNamespace(c.ns))
	return list.Items, err
}

func ended(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// processes returns the processes that any job of this run has started, found
// by a variable that every one of them inherits: whether Muster still knows
// the pod or its folder plays no part.
func (c *chaos) processes() []harness.Started { return withVariable(c.token) }

// podOf is the UID of the pod that a process was started for.
func podOf(p harness.Started) types.UID {
	uid, _, _ := strings.Cut(p.Variable("MUSTER_CONTAINER_ID"), "/")
	return types.UID(uid)
}

// noDeviceTwice fails the test if two pods use one GPU: by what the API says
// of pods that have not ended, and by what processes were told.
func (c *chaos) noDeviceTwice() {
	c.Helper()
	user := map[string]types.UID{}
	for _, p := range c.processes() {
		for entry := range strings.SplitSeq(p.Variable("MUSTER_GPUS"), ",") {
			device, _, ok := strings.Cut(entry, "=")
			if !ok {
				continue
			}
			c.devices[device] = true
			if other, taken := user[device]; taken && other != podOf(p) {
				c.Errorf("%s is used by processes of pod %s and of pod %s", device, other, podOf(p))
			}
			user[device] = podOf(p)
		}
	}
	noDeviceTwice(c.T, c.m)
}
