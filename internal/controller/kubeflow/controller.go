package kubeflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/denial"
	"github.com/muster-dev/muster/internal/fairqueue"
)

// Options are what the controller needs.
type Options struct {
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Controller reconciles TFJobs and PyTorchJobs.
type Controller struct {
	options Options
}

// New returns the controller; [Controller.SetupWithManager] gives it to a
// manager.
func New(options Options) *Controller {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Controller{options: options}
}

const (
	// concurrency is how many jobs of a kind are worked on at once.
	concurrency = 16
	// inFlight bounds how many Services of one job are created at once.
	inFlight = 16
	// forbiddenRetry is when something that the API server did not allow is
	// tried again.
	forbiddenRetry = 5 * time.Second
)

// SetupWithManager adds a reconciler for each of the kinds that the server
// has. One that it gets later is noticed at the next start.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	for _, d := range doors {
		_, err := mgr.GetRESTMapper().RESTMapping(d.gvk().GroupKind(), d.gvk().Version)
		if meta.IsNoMatchError(err) {
			mgr.GetLogger().Info("the server does not have the kind, so nothing of it is run", "kind", d.gvk().String())
			continue
		}
		if err != nil {
			return fmt.Errorf("asking the server for the kind %s: %w", d.kind, err)
		}
		r := &reconciler{door: d, cache: mgr.GetCache(), live: mgr.GetAPIReader(), client: mgr.GetClient(), recorder: mgr.GetEventRecorder("muster-kubeflow"), now: c.options.Now}
		if err := r.setUp(mgr); err != nil {
			return fmt.Errorf("setting up the controller of %s: %w", d.kind, err)
		}
	}
	return nil
}

// reconciler reconciles the jobs of one kind. They are read as they are
// written, because a typed object has lost what its type does not know.
type reconciler struct {
	door *door
	// cache reads jobs, client everything else.
	cache    client.Reader
	live     client.Reader
	client   client.Client
	recorder events.EventRecorder
	now      func() time.Time
}

func (r *reconciler) setUp(mgr ctrl.Manager) error {
	named := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.door.resource).
		For(r.door.empty()).
		Watches(&v1alpha1.TrainingJob{}, named). // also somebody else's, which is in the way until it is gone
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, NewQueue: fairqueue.New}).
		Complete(r)
}

// empty is an object of the kind to read into.
func (d *door) empty() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(d.gvk())
	return u
}

// Reconcile brings one job a step further.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	// 1. Read everything.
	object := r.door.empty()
	if err := r.cache.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if object.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil // what it owns goes with it
	}
	seen, err := r.observe(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	// 2. Decide.
	d := decide(seen)
	if d.alone {
		return ctrl.Result{}, nil
	}
	// 3. Whatever happens, say how the job stands; first of all if nobody has
	// said yet whose it is.
	if d.claim {
		if err := r.report(ctx, object, seen.job, d.status); err != nil {
			return again(err)
		}
		seen.job.status = d.status
	}
	defer func() {
		if d.deleteJob {
			return
		}
		if reported := r.report(ctx, object, seen.job, d.status); reported != nil && err == nil {
			result, err = again(reported)
		}
	}()
	// 4. Do it.
	if err := r.apply(ctx, object, d); err != nil {
		return r.refused(seen, &d, err)
	}
	return ctrl.Result{RequeueAfter: d.lookAgain}, nil
}

// again maps an error to when to try again: a write that lost a race is
// repeated on what the winner wrote.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}

// refused enters into the status that the API server did not take what was
// decided.
func (r *reconciler) refused(seen observed, d *decision, err error) (ctrl.Result, error) {
	words := err.Error()
	if said := apierrors.APIStatus(nil); errors.As(err, &said) {
		words = said.Status().Message
	}
	switch {
	case denial.Never(err):
		seen.job.problem("%s", words)
		d.status = statusFor(seen, "")
		return ctrl.Result{}, nil
	case denial.NotNow(err):
		d.status = statusFor(seen, words)
		return ctrl.Result{RequeueAfter: forbiddenRetry}, nil
	}
	return again(err)
}

// observe reads what belongs to the job.
func (r *reconciler) observe(ctx context.Context, object *unstructured.Unstructured) (observed, error) {
	seen := observed{now: r.now(), job: newJob(r.door, object), services: map[string]bool{}}
	training := &v1alpha1.TrainingJob{}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(object), training); err == nil {
		seen.training = training
	} else if !apierrors.IsNotFound(err) {
		return seen, fmt.Errorf("reading the job's TrainingJob: %w", err)
	}
	if seen.needsDoor() {
		var err error
		if seen.open, err = r.open(ctx); err != nil {
			return seen, err
		}
	}
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	err := r.client.List(ctx, services, client.InNamespace(object.GetNamespace()), client.MatchingLabels{kubeflowv1.LabelJobName: object.GetName()})
	if err != nil {
		return seen, fmt.Errorf("listing the job's services: %w", err)
	}
	for i := range services.Items {
		seen.services[services.Items[i].Name] = true
	}
	return seen, nil
}

// open reports whether the kind's jobs that name no manager are Muster's: the
// label on its definition says so.
func (r *reconciler) open(ctx context.Context) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := r.live.Get(ctx, client.ObjectKey{Name: r.door.definition()}, crd); err != nil {
		return false, fmt.Errorf("reading whose kind %s is: %w", r.door.kind, err)
	}
	return crd.Labels[kubeflowv1.LabelDoor] == kubeflowv1.DoorOpen, nil
}

// apply carries out what was decided. The TrainingJob comes before the
// Services, without which it can start.
func (r *reconciler) apply(ctx context.Context, object *unstructured.Unstructured, d decision) error {
	if d.deleteJob {
		uid := object.GetUID()
		err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the finished job: %w", err)
		}
		return nil
	}
	if d.create != nil {
		if err := r.client.Create(ctx, d.create); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the TrainingJob %s: %w", d.create.Name, err)
		}
	}
	if d.patch != nil {
		if err := r.client.Patch(ctx, d.patch.to, client.MergeFrom(d.patch.from)); err != nil {
			return fmt.Errorf("changing the TrainingJob %s: %w", d.patch.to.Name, err)
		}
	}
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, s := range d.services {
		group.Go(func() error {
			if err := r.client.Create(ctx, s); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating the service %s: %w", s.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// report writes the status if it changed, on top of the version that was read
// and of no other, and then tells of what happened. The object becomes what was
// written.
func (r *reconciler) report(ctx context.Context, object *unstructured.Unstructured, j *job, status kubeflowv1.JobStatus) error {
	if apiequality.Semantic.DeepEqual(j.status, status) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", j.Name, err)
	}
	before := object.DeepCopy()
	object.Object["status"] = content
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, object, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, e := range happened(j, &status) {
		r.recorder.Eventf(object, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
	return nil
}
