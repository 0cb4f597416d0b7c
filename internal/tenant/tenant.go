package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// ErrTaken is that a namespace of the user's name is there and is no user's.
var ErrTaken = errors.New("the namespace is not a user's of Muster")

// Add makes a tenant, or brings one that exists to what it is to be. It
// reports whether the queue was made.
func Add(ctx context.Context, server client.Client, t Tenant) (queueMade bool, err error) {
	if err := putNamespace(ctx, server, t); err != nil {
		return false, err
	}
	err = server.Create(ctx, t.queue())
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("creating queue %s: %w", t.Queue, err)
	}
	queueMade = err == nil
	for _, o := range t.objects() {
		if err := put(ctx, server, o); err != nil {
			return queueMade, err
		}
	}
	return queueMade, bound(ctx, server, t.quota())
}

func putNamespace(ctx context.Context, server client.Client, t Tenant) error {
	want := t.namespace()
	err := server.Create(ctx, want.DeepCopy())
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return wrap(err, "creating namespace %s", t.Name)
	}
	there := &corev1.Namespace{}
	if err := server.Get(ctx, client.ObjectKeyFromObject(want), there); err != nil {
		return fmt.Errorf("reading namespace %s: %w", t.Name, err)
	}
	switch {
	case there.Labels[LabelUser] != t.Name:
		return ErrTaken
	case there.DeletionTimestamp != nil:
		return fmt.Errorf("namespace %s is just being removed: try again once it is gone", t.Name)
	}
	after := there.DeepCopy()
	for key, value := range want.Annotations {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, key, value)
	}
	return wrap(server.Patch(ctx, after, client.MergeFrom(there)), "changing namespace %s", t.Name)
}

// put makes an object be as it is written.
func put(ctx context.Context, server client.Client, o client.Object) error {
	err := server.Create(ctx, o)
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return wrap(err, "creating %T %s", o, o.GetName())
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		there := o.DeepCopyObject().(client.Object)
		if err := server.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		o.SetResourceVersion(there.GetResourceVersion())
		return server.Update(ctx, o)
	})
	return wrap(err, "changing %T %s", o, o.GetName())
}

// bound makes a quota. One that is there stays: its limits are an administrator's to change.
// The API server refuses an object that a quota counts while the quota's status has no such
// kind, which the cluster's controller may take half a minute to write. So bound
// writes it, beside the counts of the controller, and the controller counts anew.
func bound(ctx context.Context, server client.Client, quota *corev1.ResourceQuota) error {
	err := server.Create(ctx, quota)
	if err != nil {
		return wrap(client.IgnoreAlreadyExists(err), "creating quota %s/%s", quota.Namespace, quota.Name)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := server.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		used := corev1.ResourceList{}
		for kind := range quota.Spec.Hard {
			used[kind] = *resource.NewQuantity(0, resource.DecimalSI)
		}
		maps.Copy(used, quota.Status.Used)
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, used
		return server.Status().Update(ctx, quota)
	})
	return wrap(err, "writing the status of quota %s/%s", quota.Namespace, quota.Name)
}

func wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}

// Standing is how a tenant stands.
type Standing struct {
	Name  string    `json:"name"`
	Queue string    `json:"queue"`
	Since time.Time `json:"since"`
	// Running and Waiting count their jobs that are not ended.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// List returns every tenant, by name.
func List(ctx context.Context, server client.Reader) ([]Standing, error) {
	var namespaces corev1.NamespaceList
	if err := server.List(ctx, &namespaces, client.HasLabels{LabelUser}); err != nil {
		return nil, fmt.Errorf("listing the users' namespaces: %w", err)
	}
	var out []Standing
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		s := Standing{Name: n.Name, Queue: n.Annotations[v1alpha1.AnnotationQueue], Since: n.CreationTimestamp.Time}
		var err error
		if s.Running, s.Waiting, err = jobs(ctx, server, n.Name); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// jobs counts those of a namespace that hold something, and those that wait.
func jobs(ctx context.Context, server client.Reader, namespace string) (running, waiting int, err error) {
	var list v1alpha1.TrainingJobList
	if err := unlessPurged(server.List(ctx, &list, client.InNamespace(namespace))); err != nil {
		return 0, 0, fmt.Errorf("listing the jobs of %s: %w", namespace, err)
	}
	for i := range list.Items {
		switch list.Items[i].Status.Phase {
		case v1alpha1.JobSucceeded, v1alpha1.JobFailed:
		case v1alpha1.JobRunning, v1alpha1.JobStarting:
			running++
		default:
			waiting++
		}
	}
	return running, waiting, nil
}

// unlessPurged is nil for the error of a server without Muster's kinds: it has no objects of
// these.
func unlessPurged(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// Find returns how one tenant stands; nil if there is none of that name.
func Find(ctx context.Context, server client.Reader, name string) (*Standing, error) {
	all, err := List(ctx, server)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(s Standing) bool { return s.Name == name }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// Remove removes a tenant with everything in the namespace, and waits until it
// is gone. The queue goes if it was made for them and nobody else uses it; it
// reports whether it did.
func Remove(ctx context.Context, server client.Client, s Standing) (queueGone bool, err error) {
	t := Tenant{Name: s.Name, Queue: s.Queue}
	// Their rights first: what they hold can then only become less.
	for _, o := range []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: t.names().Name}},
		&rbacv1.RoleBinding{ObjectMeta: t.named("muster-user")},
		&corev1.ServiceAccount{ObjectMeta: t.named(t.Name)},
		&corev1.ServiceAccount{ObjectMeta: t.named(v1alpha1.DoorAccount)},
		t.namespace(),
	} {
		if err := client.IgnoreNotFound(server.Delete(ctx, o)); err != nil {
			return false, fmt.Errorf("removing %T %s: %w", o, o.GetName(), err)
		}
	}
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(server.Get(ctx, client.ObjectKey{Name: t.Name}, &corev1.Namespace{})), nil
	})
	if err != nil {
		return false, fmt.Errorf("waiting until namespace %s is gone: %w: their rights are gone already", t.Name, err)
	}
	return removeQueue(ctx, server, t)
}

func removeQueue(ctx context.Context, server client.Client, t Tenant) (bool, error) {
	queue := &v1alpha1.Queue{}
	err := unlessPurged(server.Get(ctx, client.ObjectKey{Name: t.Queue}, queue))
	if err == nil && queue.Name == "" {
		return true, nil // it is gone, with all queues after a purge
	}
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", t.Queue, err)
	}
	if queue.Labels[LabelUser] != t.Name {
		return false, nil // it was there before them
	}
	others, err := List(ctx, server)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(others, func(s Standing) bool { return s.Queue == t.Queue }) {
		return false, nil
	}
	var jobs v1alpha1.TrainingJobList
	if err := unlessPurged(server.List(ctx, &jobs)); err != nil {
		return false, fmt.Errorf("listing the jobs in queue %s: %w", t.Queue, err)
	}
	if slices.ContainsFunc(jobs.Items, func(j v1alpha1.TrainingJob) bool { return j.Spec.Queue == t.Queue }) {
		return false, nil
	}
	return true, wrap(client.IgnoreNotFound(server.Delete(ctx, queue, client.Preconditions{UID: &queue.UID})), "removing queue %s", t.Queue)
}
