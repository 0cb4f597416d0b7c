package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/ending"
)

// Runs takes runs on.
type Runs struct {
	deps   Deps
	client client.Client
	// live reads from the API server itself, as heads have to be.
	live client.Client

	// planning is held for reading while a stage takes results, and for writing
	// while results are removed.
	planning map[string]*sync.RWMutex // by namespace
	// desk knows who computes what.
	desk    *desk
	exports exports
	// ends has how workers ended whose pods are gone.
	ends ending.Log

	mu     sync.Mutex
	active map[types.UID]*active
}

// active is what this process keeps of a run that has not ended.
type active struct {
	key types.NamespacedName
	// lease keeps what is read from being collected.
	lease *data.Lease
	works map[string]*work
	// status is how the run stands for this process, which alone writes that: what is
	// read may be older, where a write came too late or is not shown yet, and what is
	// done already would be done again. Nil: as it is read.
	status *v1alpha1.PipelineRunStatus
	// whole are the stages of which a result that was to be kept is gone: they are
	// planned from nothing, which computes what is missing.
	whole map[string]bool
}

const (
	// preparing is when a stage is looked at again whose code or environment is
	// being made ready.
	preparing = 500 * time.Millisecond
	// leaving is how long the members of a stage that is done have to end by
	// themselves.
	leaving = 5 * time.Second
)

// SetupWithManager adds the controller to the manager.
func (c *Runs) SetupWithManager(mgr ctrl.Manager) error {
	if c.deps.Machine == nil {
		return nil // no run is ever made
	}
	c.client = mgr.GetClient()
	var err error
	if c.live, err = direct(mgr); err != nil {
		return err
	}
	changed := make(chan event.GenericEvent)
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c.forward(ctx, changed)
		return nil
	}))
	if err == nil {
		err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			c.upkeep(ctx)
			return nil
		}))
	}
	if err == nil {
		err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			c.desk.board.Run(ctx)
			return nil
		}))
	}
	if err == nil {
		err = ctrl.NewControllerManagedBy(mgr).
			Named("pipelinerun").
			For(&v1alpha1.PipelineRun{}).
			Owns(&v1alpha1.TrainingJob{}).
			Watches(&v1alpha1.PipelineRun{}, handler.EnqueueRequestsFromMapFunc(c.siblings)).
			Watches(&corev1.Pod{}, c.onPods()).
			WatchesRawSource(crsource.Channel(changed, &handler.EnqueueRequestForObject{})).
			WithOptions(controller.Options{MaxConcurrentReconciles: 8, NewQueue: fairqueue.New}).
			Complete(c)
	}
	if err != nil {
		return fmt.Errorf("setting up the PipelineRun controller: %w", err)
	}
	return nil
}

// siblings are the runs of the same pipeline that wait for one that has ended.
func (c *Runs) siblings(ctx context.Context, o client.Object) []reconcile.Request {
	run := o.(*v1alpha1.PipelineRun)
	if !Ended(run.Status.Phase) {
		return nil
	}
	list := &v1alpha1.PipelineRunList{}
	if err := c.client.List(ctx, list, client.InNamespace(run.Namespace)); err != nil {
		return nil // the cache is stopping
	}
	var out []reconcile.Request
	for i := range list.Items {
		if other := &list.Items[i]; other.Spec.Pipeline == run.Spec.Pipeline && !Ended(other.Status.Phase) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		}
	}
	return out
}

// forward wakes the run of which the foreman has news, after what is left of runs
// that are gone was removed.
func (c *Runs) forward(ctx context.Context, out chan<- event.GenericEvent) {
	defer c.stopAllExports()
	c.sweep(ctx)
	for {
		var name string
		select {
		case <-ctx.Done():
			return
		case name = <-c.deps.Machine.Foreman.Changes():
		case name = <-c.desk.board.Changes():
		}
		key, ok := c.whose(name)
		if !ok {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case out <- event.GenericEvent{Object: &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}:
		}
	}
}

// workName is the name of a stage's work at the foreman's.
func workName(run *v1alpha1.PipelineRun, stage string) string { return string(run.UID) + "." + stage }

func (c *Runs) whose(work string) (types.NamespacedName, bool) {
	uid, _, _ := strings.Cut(work, ".")
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.active[types.UID(uid)]
	if a == nil {
		return types.NamespacedName{}, false
	}
	return a.key, true
}

// Reconcile takes one run on.
func (c *Runs) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	run := &v1alpha1.PipelineRun{}
	if err := c.client.Get(ctx, req.NamespacedName, run); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, c.drop(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	if !run.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.drop(ctx, req.NamespacedName)
	}
	if Ended(run.Status.Phase) && run.Spec.DryRun {
		return c.forget(ctx, run)
	}
	if Ended(run.Status.Phase) {
		return c.tidy(ctx, run)
	}
	status := c.standing(run)
	again, err := c.advance(ctx, run, status)
	if err != nil && !Ended(status.Phase) {
		status.Message = err.Error()
	}
	c.stands(run, status)
	if !apiequality.Semantic.DeepEqual(run.Status, *status) {
		after := run.DeepCopy()
		after.Status = *status
		failed := c.client.Status().Patch(ctx, after, client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(failed) {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		err = errors.Join(err, client.IgnoreNotFound(failed))
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// standing is how a run stands, for whoever changes it.
func (c *Runs) standing(run *v1alpha1.PipelineRun) *v1alpha1.PipelineRunStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.active[run.UID]; a != nil && a.status != nil {
		return a.status.DeepCopy()
	}
	return run.Status.DeepCopy()
}

// stands keeps how a run stands that this process has taken on.
func (c *Runs) stands(run *v1alpha1.PipelineRun, status *v1alpha1.PipelineRunStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.active[run.UID]; a != nil {
		a.status = status.DeepCopy()
	}
}

// advance takes every stage as far as it goes.
func (c *Runs) advance(ctx context.Context, run *v1alpha1.PipelineRun, status *v1alpha1.PipelineRunStatus) (time.Duration, error) {
	// In seconds, as the API server keeps it: finer, what this process has kept would never
	// be what it reads, and would be written at every look.
	now := metav1.NewTime(c.deps.Now()).Rfc3339Copy()
	if status.StartTime == nil {
		status.StartTime = &now
	}
	graph, problem := parse(run.Spec.Pipeline, &v1alpha1.PipelineSpec{Stages: run.Spec.Stages, Queue: run.Spec.Queue}, c.deps.Machine)
	if problem = cmp.Or(unreadable(run.Unreadable), problem); problem != "" {
		status.Phase, status.Message, status.FinishTime = v1alpha1.RunFailed, problem, &now
		return 0, nil
	}
	if run.Spec.Cancel {
		c.cancel(graph, status, now)
		return 0, nil
	}
	if run.Spec.DryRun {
		return c.foresee(ctx, run, graph, status)
	}
	before, err := c.before(ctx, run)
	if err != nil {
		return 0, err
	}
	if before != "" {
		status.Phase, status.Message = v1alpha1.RunWaiting, "waits for run "+before+" of the same pipeline"
		return 0, nil
	}
	a := c.activate(run)
	var again time.Duration
	var errs []error
	for _, stage := range graph.Stages {
		s := stageStatus(status, stage.Name)
		one := &step{run: run, active: a, graph: graph, stage: stage, all: status, status: s, now: now}
		wait, err := c.step(ctx, one)
		if err == nil && Ended(s.Phase) {
			wait, err = c.export(ctx, one)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stage %s: %w", stage.Name, err))
			if !Ended(s.Phase) {
				s.Message = err.Error()
			}
		}
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	summarise(graph, status, now)
	return again, errors.Join(errs...)
}

// before names a run of the same pipeline that comes first.
func (c *Runs) before(ctx context.Context, run *v1alpha1.PipelineRun) (string, error) {
	list := &v1alpha1.PipelineRunList{}
	if err := c.client.List(ctx, list, client.InNamespace(run.Namespace)); err != nil {
		return "", fmt.Errorf("listing runs: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.Pipeline != run.Spec.Pipeline || other.UID == run.UID || other.Spec.DryRun || Ended(other.Status.Phase) || !other.DeletionTimestamp.IsZero() {
			continue
		}
		if pipeline.Order(other, run) < 0 {
			return other.Name, nil
		}
	}
	return "", nil
}

// activate has this process keep what the run reads.
func (c *Runs) activate(run *v1alpha1.PipelineRun) *active {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.active[run.UID]
	if a == nil {
		a = &active{key: client.ObjectKeyFromObject(run), works: map[string]*work{}}
		c.active[run.UID] = a
	}
	return a
}

// pin takes a lease on what the run reads, once something is to be computed: a run
// of which nothing is to be done is over before any collection.
func (c *Runs) pin(ctx context.Context, run *v1alpha1.PipelineRun, a *active) error {
	if a.lease != nil {
		return nil
	}
	var ids []digest.ID
	for _, in := range run.Spec.Inputs {
		if in.Commit == "" {
			continue
		}
		id, err := digest.Parse(in.Commit)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	store, err := c.deps.Machine.Store(ctx, run.Namespace)
	if err != nil {
		return fmt.Errorf("opening the store of data: %w", err)
	}
	lease, err := store.Pin(ctx, ids...)
	if err != nil {
		return fmt.Errorf("keeping what the run reads: %w", err)
	}
	a.lease = lease
	return nil
}

// tidy gives back what a run that has ended still holds.
func (c *Runs) tidy(ctx context.Context, run *v1alpha1.PipelineRun) (ctrl.Result, error) {
	errs := []error{c.release(ctx, run.UID)}
	for i := range run.Spec.Stages {
		errs = append(errs, c.deps.Machine.Foreman.Close(workName(run, run.Spec.Stages[i].Name)))
	}
	errs = append(errs, c.tidyParts(ctx, run)) // now that nothing is kept any more
	jobs := &v1alpha1.TrainingJobList{}
	if err := c.client.List(ctx, jobs, client.InNamespace(run.Namespace)); err != nil {
		return ctrl.Result{}, errors.Join(append(errs, fmt.Errorf("listing the run's jobs: %w", err))...)
	}
	var again time.Duration
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !metav1.IsControlledBy(job, run) {
			continue
		}
		if job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed || !job.DeletionTimestamp.IsZero() {
			continue
		}
		if wait := leaving - c.deps.Now().Sub(run.Status.FinishTime.Time); run.Status.Phase == v1alpha1.RunSucceeded && wait > 0 {
			again = wait // its members are about to end by themselves
			continue
		}
		if err := c.client.Delete(ctx, job, client.Preconditions{UID: &job.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting job %s: %w", job.Name, err))
		}
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(errs...)
}

// release lets go of what this process keeps of a run.
func (c *Runs) release(ctx context.Context, uid types.UID) error {
	c.mu.Lock()
	a := c.active[uid]
	delete(c.active, uid)
	var works []string
	if a != nil {
		works = slices.Collect(maps.Keys(a.works))
	}
	c.mu.Unlock()
	c.stopExports(uid)
	for _, stage := range works {
		c.desk.leave(string(uid) + "." + stage)
	}
	if a == nil || a.lease == nil {
		return nil
	}
	return a.lease.Release(ctx)
}

// drop gives back what a run held that is deleted. One that is not active, such as one
// that was tidied, holds nothing.
func (c *Runs) drop(ctx context.Context, key types.NamespacedName) error {
	c.mu.Lock()
	var uids []types.UID
	var works []string
	for id, a := range c.active {
		if a.key == key {
			uids = append(uids, id)
			for stage := range a.works {
				works = append(works, string(id)+"."+stage)
			}
		}
	}
	c.mu.Unlock()
	var errs []error
	for _, uid := range uids {
		errs = append(errs, c.release(ctx, uid))
	}
	for _, name := range works {
		errs = append(errs, c.deps.Machine.Foreman.Close(name))
	}
	if c.deps.Machine.carries() {
		errs = append(errs, c.dropParts(ctx, key.Namespace))
	}
	return errors.Join(errs...)
}
