package trainingjob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/dataset/reading"
	"github.com/muster-dev/muster/internal/denial"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/news"
)

// Sources makes code ready.
type Sources interface {
	// Ensure answers, without blocking, how far the fetch of url for owner
	// has come.
	Ensure(owner, url string) source.State
	// Has reports, without blocking, whether a snapshot is stored for owner. The
	// error says that this is not known yet ([source.ErrAsked]), or cannot be known
	// just now; Changes tells when to ask again.
	Has(owner, digest string) (bool, error)
	// Contains reports, without blocking, whether a snapshot that is stored for
	// owner holds a file. An error that wraps [source.ErrAsked] or [source.ErrAway]
	// is as one of Has.
	Contains(owner, digest, path string) (bool, error)
	// Part returns, without blocking, a file or folder of a snapshot that is stored for
	// owner. An error that wraps [source.ErrAsked] or [source.ErrAway] is as one of Has.
	Part(owner, digest, path string) (source.Part, error)
	// Changes tells when Ensure may have a new answer.
	Changes() <-chan string
}

// Environments makes Python environments ready.
type Environments interface {
	// Ensure answers, without blocking for long, how what a job asks for stands.
	Ensure(*v1alpha1.TrainingJob, environment.Request) environment.State
	// Changes tells when Ensure may have a new answer.
	Changes() <-chan string
}

// Data brings what jobs read to where members run.
type Data interface {
	// Ensure answers, without blocking, how far what a job reads is.
	Ensure(*v1alpha1.TrainingJob) reading.State
	// Changes tells when Ensure may have a new answer.
	Changes() <-chan string
}

// Deps is what the controller works with.
type Deps struct {
	// Sources and Environments make code and environments ready. Nil: there is
	// no store for them, and jobs that need one are refused in words.
	Sources      Sources
	Environments Environments
	// Data makes data ready. Nil: there is no store of data, and jobs that read any
	// are refused in words.
	Data Data
	// HostImage is what members run in that name no image. Empty: jobs that name
	// none are refused in words.
	HostImage string
	// ShareProcesses has the first process of a member's pod be another than the
	// member's own, for nodes on which it would be that: as process 1 a program
	// that does nothing about SIGTERM (Python, a shell) ignores it, and would
	// only be killed once its grace period is over.
	ShareProcesses bool
	// OwnCode has each member have its own copy of the code, in a volume that counts
	// as its pod's storage, for nodes whose disks others use, too.
	OwnCode bool
	// Reports is who reads how far members say that they are.
	Reports Reports
	// AgentNodes are the labels of the nodes on which agents bring volumes to pods.
	// Empty: all do that need to.
	AgentNodes map[string]string
	// ServesData has members served by a container of their own what they read as they
	// ask for it, where nodes do not serve it.
	ServesData bool
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Reports is who reads what members write into the file that MUSTER_PROGRESS
// names.
type Reports int

const (
	// ReportsToNode is the node, which makes the file's folder and reads it.
	ReportsToNode Reports = iota
	// ReportsToAgent is an agent beside the kubelet; the folder is a volume of the
	// pod.
	ReportsToAgent
	// ReportsToNobody is nobody, though the pod has such a volume.
	ReportsToNobody
)

// Controller reconciles TrainingJobs.
type Controller struct {
	deps     Deps
	client   client.Client
	recorder events.EventRecorder

	mu sync.Mutex
	// unsaid is the news that is not written yet; news lets so much of it through
	// each second.
	unsaid map[types.NamespacedName]unsaid
	// made is when a gang was made that the cache has not shown yet, by its
	// job's UID.
	made map[types.UID]time.Time
	news *rate.Limiter
	// events lets as many through of those that tell of nothing bad.
	events *rate.Limiter
}

// New returns the controller; [Controller.SetupWithManager] gives it to a
// manager.
func New(deps Deps) *Controller {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Controller{deps: deps, unsaid: map[types.NamespacedName]unsaid{}, made: map[types.UID]time.Time{}, news: news.New(), events: news.New()}
}

// concurrency is how many jobs are worked on at once: a job costs a few writes
// of some milliseconds each, and a thousand may be submitted together.
const concurrency = 64

// forbiddenRetry is when something that the API server did not allow is tried
// again: a quota may have changed. Errors are tried again too, but after a
// pause that grows to many minutes.
const forbiddenRetry = 5 * time.Second

// SetupWithManager adds the controller, and the watch for changes of code and
// environments, to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.client = mgr.GetClient()
	c.recorder = mgr.GetEventRecorder("muster-trainingjob")
	changed := make(chan event.GenericEvent)
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c.forward(ctx, changed)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("setting up the TrainingJob controller: %w", err)
	}
	// What is named for a job is that job's business, even where it belongs
	// to somebody else: it stands in the way until it is gone.
	named := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	labelled := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if name := o.GetLabels()[v1alpha1.LabelJob]; name != "" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
		}
		return nil
	})
	err = ctrl.NewControllerManagedBy(mgr).
		Named("trainingjob").
		For(&v1alpha1.TrainingJob{}).
		Watches(&v1alpha1.Gang{}, named).
		Watches(&corev1.Service{}, labelled, builder.OnlyMetadata).
		Watches(&corev1.PersistentVolumeClaim{}, labelled).
		WatchesRawSource(crsource.Channel(changed, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, NewQueue: fairqueue.New}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the TrainingJob controller: %w", err)
	}
	return nil
}

// forward wakes every job that is being prepared when code, an environment or data
// changes. Which of them waits for which is not asked: a job may have been
// told to wait a moment ago and not yet say so in the cache.
func (c *Controller) forward(ctx context.Context, out chan<- event.GenericEvent) {
	var code, environments, data <-chan string // nil, where there is no store: never
	if c.deps.Sources != nil {
		code = c.deps.Sources.Changes()
	}
	if c.deps.Environments != nil {
		environments = c.deps.Environments.Changes()
	}
	if c.deps.Data != nil {
		data = c.deps.Data.Changes()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-code:
		case <-environments:
		case <-data:
		}
		var jobs v1alpha1.TrainingJobList
		if err := c.client.List(ctx, &jobs); err != nil {
			continue // the cache is stopping; every job is looked at again when it starts
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			if job.Status.Phase != "" && job.Status.Phase != v1alpha1.JobPreparing {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case out <- event.GenericEvent{Object: job}:
			}
		}
	}
}

// Reconcile brings one job a step further.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	// 1. Read everything.
	job := &v1alpha1.TrainingJob{}
	if err := c.client.Get(ctx, req.NamespacedName, job); err != nil {
		c.said(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !job.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // what it owns goes with it
	}
	seen, err := c.observe(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	// 2. Decide.
	d := decide(seen)
	// 3. Last of all, whatever happens: say how the job stands.
	defer func() {
		wait, failed := c.report(ctx, job, &d)
		err = errors.Join(err, failed)
		if apierrors.IsConflict(err) {
			// The job changed while it was looked at: look again.
			result, err = ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		if wait > 0 && (result.RequeueAfter == 0 || wait < result.RequeueAfter) {
			result.RequeueAfter = wait
		}
	}()
	// 4. Do it.
	if err := c.apply(ctx, job, d); err != nil {
		d.refused(seen, err)
		if denial.NotNow(err) {
			return ctrl.Result{RequeueAfter: forbiddenRetry}, nil
		}
		return ctrl.Result{}, err
	}
	if seen.gang == nil && c.hasJustMade(job.UID) {
		d.lookAgain = showing // should it be gone before it was seen
	}
	return ctrl.Result{RequeueAfter: d.lookAgain}, nil
}

// observe reads what belongs to the job, and asks for code, environment and data if
// it needs them now.
func (c *Controller) observe(ctx context.Context, job *v1alpha1.TrainingJob) (observed, error) {
	seen := observed{now: c.deps.Now(), job: job, claims: map[string]*corev1.PersistentVolumeClaim{}}
	gang, service := &v1alpha1.Gang{}, serviceMeta()
	key := client.ObjectKeyFromObject(job)
	if err := c.client.Get(ctx, key, gang); err == nil {
		seen.gang = gang
		c.shown(job.UID)
	} else if !apierrors.IsNotFound(err) {
		return seen, fmt.Errorf("reading the job's gang: %w", err)
	}
	if err := c.client.Get(ctx, key, service); err == nil {
		seen.service = service
	} else if !apierrors.IsNotFound(err) {
		return seen, fmt.Errorf("reading the job's service: %w", err)
	}
	for _, want := range claimsOf(job) {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(want), claim); err == nil {
			seen.claims[claim.Name] = claim
		} else if !apierrors.IsNotFound(err) {
			return seen, fmt.Errorf("reading the job's claims: %w", err)
		}
	}
	if seen.needsPreparation() {
		seen.prepared = c.prepare(job)
	}
	return seen, nil
}

// apply carries out a decision. It creates the objects that members need together, and the
// gang after them: a gang without its claim or its Service, which a quota may refuse, would hold
// GPUs with members that cannot start.
func (c *Controller) apply(ctx context.Context, job *v1alpha1.TrainingJob, d decision) error {
	if d.deleteJob {
		err := c.client.Delete(ctx, job, client.Preconditions{UID: &job.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the finished job: %w", err)
		}
		return nil
	}
	if d.patchGang != nil {
		if err := c.client.Patch(ctx, d.patchGang.to, client.MergeFrom(d.patchGang.from)); err != nil {
			return fmt.Errorf("changing the gang: %w", err)
		}
	}
	var gang client.Object
	errs := make([]error, len(d.create))
	var wg sync.WaitGroup
	for i, object := range d.create {
		if _, is := object.(*v1alpha1.Gang); is {
			gang = object
			continue
		}
		wg.Go(func() { errs[i] = c.create(ctx, job, object) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil || gang == nil {
		return err
	}
	return c.create(ctx, job, gang)
}

// report writes the status if it changed, and then tells of what happened. It
// returns for how long that can wait, if it can.
func (c *Controller) report(ctx context.Context, job *v1alpha1.TrainingJob, d *decision) (time.Duration, error) {
	if d.deleteJob || apiequality.Semantic.DeepEqual(job.Status, d.status) {
		c.said(client.ObjectKeyFromObject(job))
		return 0, nil
	}
	if wait := c.early(job, &d.status); wait > 0 {
		return wait, nil
	}
	after := job.DeepCopy()
	after.Status = d.status
	patch := client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, after, patch); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	for _, e := range happened(job, &d.status) {
		if e.kind == corev1.EventTypeNormal && !c.events.AllowN(c.deps.Now(), 1) {
			continue // where so much happens, nobody reads that all is well
		}
		c.recorder.Eventf(job, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
	return 0, nil
}

func describe(o client.Object) string {
	kind := "an object"
	switch o.(type) {
	case *v1alpha1.Gang:
		kind = "the gang"
	case *corev1.Service:
		kind = "the service"
	case *corev1.PersistentVolumeClaim:
		kind = "the claim"
	}
	return kind + " " + o.GetName()
}
