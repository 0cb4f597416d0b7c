package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// mishap is how a write to the API server goes wrong.
type mishap string

const (
	refused    mishap = "refused"
	conflicts  mishap = "conflicts"
	unanswered mishap = "unanswered" // and made
	diesBefore mishap = "dies before"
	diesAfter  mishap = "dies after"
)

var mishaps = []mishap{refused, conflicts, unanswered, diesBefore, diesAfter}

// made says that the write is made all the same, and deadly that Muster's process ends at it.
func (m mishap) made() bool   { return m == unanswered || m == diesAfter }
func (m mishap) deadly() bool { return m == diesBefore || m == diesAfter }

// fault is a write that goes wrong; the zero value is none.
type fault struct {
	at  int
	how mishap
}

// patience is how long anything may take: most of it is a worker that is waited for. These tests
// run at the lowest priority beside others, which may leave them few seconds of a minute.
const patience = 3 * time.Minute

// errDead is what a process is told that has ended.
var errDead = errors.New("this process has ended")

// course is a rig whose API server wakes the controllers as a manager does: by what
// changes, by what they ask for, and by nothing else, so that one that forgets to ask is
// found out. Members of jobs outlive Muster's process.
type course struct {
	*rig
	t     *testing.T
	trace string
	fault fault
	away  bool
	// images are those of its stages, where it is not the rig's that they are.
	images Images
	// fails is a datum that fails in this course; recorded says that this was recorded when
	// a process died.
	fails    string
	recorded bool
	// queue is what is to be looked at, later what is when it is time.
	queue []wakeup
	later map[wakeup]time.Time
	// told are the generations of pipelines that others have been told of.
	told map[types.UID]int64
	// seen are the last runs of pipelines that have been waited for.
	seen map[string]string
	// process is the one that lives.
	process *process
	// changed says that there is news.
	changed chan struct{}

	mu     sync.Mutex
	news   []client.Object
	writes int
	struk  string
	skew   time.Duration
}

// wakeup is an object that a controller looks at.
type wakeup struct {
	kind string
	key  types.NamespacedName
}

// process is Muster's, with a memory of its own.
type process struct {
	dead   bool // under the course's lock
	events chan event.GenericEvent
	stop   func()
}

// newCourse starts one, in which one write goes wrong. Muster's process begins with the
// first wait.
func newCourse(t *testing.T, f fault) *course {
	t.Helper()
	c := &course{rig: newRig(t, nil), t: t, fault: f, trace: filepath.Join(t.TempDir(), "trace"), later: map[wakeup]time.Time{}, told: map[types.UID]int64{}, seen: map[string]string{}, changed: make(chan struct{}, 1)}
	c.server = c.telling()
	c.over, c.restarts = c.succeeds, f.how.deadly()
	t.Cleanup(func() {
		if c.process != nil {
			c.process.stop()
		}
	})
	return c
}

// elsewhere has stages run on other machines.
func (c *course) elsewhere() { c.away = true }

// begin has Muster's process begin to work, and look at everything that there is.
func (c *course) begin() {
	c.Helper()
	if c.away {
		c.machine.Elsewhere, c.machine.DefaultImage = true, "box:1"
	}
	if c.images != nil {
		c.machine.Images = c.images
	}
	p := &process{events: make(chan event.GenericEvent)}
	server := c.failing(p)
	c.pipelines.client, c.pipelines.live, c.pipelines.deps.Now = server, server, c.now
	c.runs.client, c.runs.live, c.runs.deps.Now = server, server, c.now
	ctx, cancel := context.WithCancel(c.ctx)
	var group sync.WaitGroup
	runs := c.runs
	group.Go(func() { runs.desk.board.Run(ctx) })
	group.Go(func() { runs.forward(ctx, p.events) })
	p.stop = func() {
		cancel()
		group.Wait()
	}
	c.process, c.queue = p, nil
	clear(c.later)
	clear(c.told)
	pipelines := &v1alpha1.PipelineList{}
	c.must(c.server.List(c.ctx, pipelines))
	for i := range pipelines.Items {
		c.wake("pipeline", client.ObjectKeyFromObject(&pipelines.Items[i]))
	}
	for _, run := range c.all() {
		c.wake("run", client.ObjectKeyFromObject(&run))
	}
}

// revive puts another process in the place of one that has died.
func (c *course) revive() {
	c.Helper()
	c.process.stop()
	c.halt()
	results := &v1alpha1.Dataset{}
	if err := c.server.Get(c.ctx, request(ResultsDataset).NamespacedName, results); err == nil && len(results.Spec.Branches) > 0 {
		c.recorded = c.results()["failed"] > 0
	}
	for _, a := range c.runs.active { // which end by themselves, once nobody renews them
		if a.lease != nil {
			c.must(a.lease.Release(c.ctx))
		}
	}
	c.boot()
	c.begin()
}

// now is the time; wind has it go on.
func (c *course) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew)
}

func (c *course) wind(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += by
}

// telling is the API server, which gives what is made what a real one would, and tells of
// whatever has changed.
func (c *course) telling() client.Client {
	c.Helper()
	watched, ok := c.server.(client.WithWatch)
	if !ok {
		c.Fatal("the fake client cannot be watched")
	}
	tell := func(o client.Object, err error) error {
		if err == nil {
			c.tell(o)
		}
		return err
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			switch o.(type) { // which the driver alone makes
			case *v1alpha1.PipelineRun, *v1alpha1.TrainingJob:
				o.SetUID(c.uid())
				o.SetCreationTimestamp(metav1.NewTime(time.Now().Add(time.Duration(c.uids) * time.Second)))
			}
			return tell(o, to.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return tell(o, to.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return tell(o, to.Patch(ctx, o, p, opts...))
		},
		Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var options client.DeleteOptions
			var of *types.UID
			if p := options.ApplyOptions(opts).Preconditions; p != nil {
				of = p.UID
			}
			was, err := same(ctx, to, o, of)
			if err != nil {
				return err
			}
			return tell(was, to.Delete(ctx, o, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, to client.Client, part string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			uid := o.GetUID()
			if _, err := same(ctx, to, o, &uid); err != nil {
				return err
			}
			return tell(o, to.SubResource(part).Update(ctx, o, opts...))
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, part string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return tell(o, to.SubResource(part).Patch(ctx, o, p, opts...))
		},
	})
}

// same is an object as it is now, unless it is another one of that name.
func same(ctx context.Context, server client.Client, o client.Object, uid *types.UID) (client.Object, error) {
	was, _ := o.DeepCopyObject().(client.Object)
	if err := server.Get(ctx, client.ObjectKeyFromObject(o), was); err != nil {
		return nil, err
	}
	if uid != nil && *uid != was.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it is another one"))
	}
	return was, nil
}

func (c *course) tell(o client.Object) {
	copied, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return
	}
	c.mu.Lock()
	c.news = append(c.news, copied)
	c.mu.Unlock()
	c.signal()
}

func (c *course) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// failing is the API server as a process finds it: one write goes wrong, and nothing is
// heard any more by one that has died.
func (c *course) failing(p *process) client.Client {
	watched, _ := c.server.(client.WithWatch)
	alive := func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p.dead {
			return errDead
		}
		return nil
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := alive(); err != nil {
				return err
			}
			return to.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := alive(); err != nil {
				return err
			}
			return to.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return c.write(p, "create", o, func(o client.Object) error { return to.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return c.write(p, "update", o, func(o client.Object) error { return to.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, to client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return c.write(p, "patch", o, func(o client.Object) error { return to.Patch(ctx, o, patch, opts...) })
		},
		Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return c.write(p, "delete", o, func(o client.Object) error { return to.Delete(ctx, o, opts...) })
		},
		DeleteAllOf: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			return c.write(p, "delete all of", o, func(o client.Object) error { return to.DeleteAllOf(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, to client.Client, part string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return c.write(p, "update "+part, o, func(o client.Object) error { return to.SubResource(part).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, part string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return c.write(p, "patch "+part, o, func(o client.Object) error { return to.SubResource(part).Patch(ctx, o, patch, opts...) })
		},
	})
}

// write makes a write, or has it go wrong.
func (c *course) write(p *process, verb string, o client.Object, make func(client.Object) error) error {
	c.mu.Lock()
	if p.dead {
		c.mu.Unlock()
		return errDead
	}
	c.writes++
	if c.writes != c.fault.at {
		c.mu.Unlock()
		return make(o)
	}
	how := c.fault.how
	c.struk = fmt.Sprintf("%s of %T %s", verb, o, o.GetName())
	p.dead = how.deadly()
	c.mu.Unlock()
	defer c.signal()
	if copied, ok := o.DeepCopyObject().(client.Object); ok && how.made() {
		_ = make(copied) // whoever asked for it hears nothing of what it has become
	}
	switch how {
	case conflicts:
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("the object has been modified"))
	case unanswered:
		return apierrors.NewTimeoutError("the server has not answered", 0)
	case refused:
		return apierrors.NewInternalError(errors.New("etcd has no leader"))
	}
	return errDead
}

// struck is the write that went wrong; empty: none has.
func (c *course) struck() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.struk
}

// until has the controllers look at what they are told of and what they ask to look at,
// and jobs run, until something is so.
func (c *course) until(what string, so func() bool) {
	c.Helper()
	if c.process == nil {
		c.begin()
	}
	deadline := time.Now().Add(patience)
	for tick := time.Tick(10 * time.Millisecond); ; {
		for c.round() && time.Now().Before(deadline) {
		}
		if so() {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s: it never comes to that: %s; %s went wrong; %s", what, c.left(), c.struck(), c.story())
		}
		select {
		case e := <-c.process.events:
			c.wake("run", client.ObjectKeyFromObject(e.Object))
		case <-c.changed:
		case <-tick: // of its own files, and of time, nobody tells
		}
	}
}

// story is how all runs stand.
func (c *course) story() string {
	c.Helper()
	words := ""
	for _, run := range c.all() {
		words += c.says(&run) + "\n"
	}
	return words
}

// round looks at one object, and says whether there may be more.
func (c *course) round() bool {
	c.Helper()
	if c.died() {
		c.revive()
	}
	if c.hear() {
		c.collect()
		c.employ()
	}
	for w, at := range c.later {
		if !at.After(c.now()) {
			delete(c.later, w)
			c.wake(w.kind, w.key)
		}
	}
	if len(c.queue) == 0 {
		return false
	}
	w := c.queue[0]
	c.queue = c.queue[1:]
	var reconciler reconcile.Reconciler = c.runs
	if w.kind == "pipeline" {
		reconciler = c.pipelines
	}
	result, err := reconciler.Reconcile(c.ctx, ctrl.Request{NamespacedName: w.key})
	switch {
	case err != nil && c.struck() == "":
		c.Fatalf("%s %s: %v", w.kind, w.key, err)
	case err != nil:
		c.later[w] = c.now().Add(5 * time.Millisecond)
	case result.RequeueAfter > leaving:
		c.later[w] = c.now().Add(result.RequeueAfter)
	case result.RequeueAfter > 0:
		c.later[w] = c.now().Add(min(result.RequeueAfter, 20*time.Millisecond))
	}
	return true
}

func (c *course) died() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process.dead
}

func (c *course) wake(kind string, key types.NamespacedName) {
	if w := (wakeup{kind, key}); !slices.Contains(c.queue, w) {
		c.queue = append(c.queue, w)
	}
}

// hear wakes who watches what has changed, as both controllers say. It says whether any
// runs or jobs have.
func (c *course) hear() (jobs bool) {
	c.mu.Lock()
	news := c.news
	c.news = nil
	c.mu.Unlock()
	for _, o := range news {
		var pipelines, runs []reconcile.Request
		switch o := o.(type) {
		case *v1alpha1.Pipeline:
			pipelines = []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
			if o.Generation != c.told[o.UID] {
				c.told[o.UID] = o.Generation
				pipelines = append(pipelines, c.pipelines.readers(c.ctx, o)...)
			}
		case *v1alpha1.Dataset:
			pipelines = c.pipelines.readers(c.ctx, o)
		case *v1alpha1.PipelineRun:
			jobs = true
			pipelines = []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.Pipeline}}}
			runs = append(c.runs.siblings(c.ctx, o), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		case *v1alpha1.TrainingJob:
			jobs = true
			if owner := metav1.GetControllerOf(o); owner != nil {
				runs = []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: owner.Name}}}
			}
		}
		for _, r := range pipelines {
			c.wake("pipeline", r.NamespacedName)
		}
		for _, r := range runs {
			c.wake("run", r.NamespacedName)
		}
	}
	return jobs
}

// collect removes jobs of runs that are gone, as a real API server has it done.
func (c *course) collect() {
	c.Helper()
	jobs := &v1alpha1.TrainingJobList{}
	c.must(c.server.List(c.ctx, jobs))
	for i := range jobs.Items {
		owner := metav1.GetControllerOf(&jobs.Items[i])
		if run := c.run(owner.Name); run == nil || run.UID != owner.UID {
			c.must(c.server.Delete(c.ctx, &jobs.Items[i]))
		}
	}
}

// succeeds has a job of workers succeed whose members have found nothing more to do: long
// ago, so that nobody waits for that to be so.
func (c *course) succeeds(job *v1alpha1.TrainingJob) {
	at := metav1.NewTime(c.now().Add(-2 * leaving))
	job.Status.Phase, job.Status.StartTime, job.Status.FinishTime = v1alpha1.JobSucceeded, &at, &at
	err := c.server.Status().Update(c.ctx, job)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && c.ctx.Err() == nil {
		c.Error(err)
	}
}

// run is a run as it is now, nil where there is none; pipeline is a pipeline.
func (c *course) run(name string) *v1alpha1.PipelineRun {
	c.Helper()
	run := &v1alpha1.PipelineRun{}
	if err := c.server.Get(c.ctx, request(name).NamespacedName, run); err != nil {
		c.must(client.IgnoreNotFound(err))
		return nil
	}
	return run
}

func (c *course) pipeline(name string) *v1alpha1.Pipeline {
	c.Helper()
	p := &v1alpha1.Pipeline{}
	c.must(c.server.Get(c.ctx, request(name).NamespacedName, p))
	return p
}

// stands waits until a pipeline stands somehow for what there is now.
func (c *course) stands(name string, phase v1alpha1.PipelinePhase) {
	c.Helper()
	c.until(fmt.Sprintf("pipeline %s is %s", name, phase), func() bool {
		p := c.pipeline(name)
		return p.Status.Phase == phase && p.Status.ObservedGeneration == p.Generation
	})
}

// ends waits until another run of a pipeline than before has ended, and returns it.
func (c *course) ends(name string, phase v1alpha1.RunPhase) *v1alpha1.PipelineRun {
	c.Helper()
	var run *v1alpha1.PipelineRun
	c.until(fmt.Sprintf("a run of %s is %s", name, phase), func() bool {
		last := c.pipeline(name).Status.LastRun
		if last == "" || last == c.seen[name] {
			return false
		}
		run = c.run(last)
		return run != nil && Ended(run.Status.Phase)
	})
	c.seen[name] = run.Name
	if run.Status.Phase != phase {
		c.Fatalf("%s instead of %s; %s went wrong", c.says(run), phase, c.struck())
	}
	c.stands(name, v1alpha1.PipelineReady)
	return run
}

// again starts a run like another one, as people do, whose stages compute again.
func (c *course) again(before *v1alpha1.PipelineRun, name string, stages ...string) {
	c.Helper()
	run := &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, Labels: before.Labels, OwnerReferences: before.OwnerReferences}, Spec: before.Spec}
	run.Spec.Number++
	run.Spec.Identity, run.Spec.Recompute = name, stages
	c.must(c.server.Create(c.ctx, run))
}
