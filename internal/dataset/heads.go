package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// MissingError says that there is no such Dataset.
type MissingError struct{ Namespace, Name string }

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("there is no dataset %s in namespace %s", e.Name, e.Namespace)
}

// Heads are the branches and tags of one Dataset object. Client, Namespace and
// Name are required.
type Heads struct {
	// Client reads from the API server itself: what a cache shows may be old.
	Client client.Client
	// Namespace and Name are the object's.
	Namespace, Name string
	// Measure says how large a commit is that a branch is about to be at. An error
	// keeps the branch from moving. Default: the object says nothing of it.
	Measure func(context.Context, digest.ID) (Size, error)
	// Now is the clock of what the object says of when a head moved. Default:
	// time.Now.
	Now func() time.Time

	mu sync.Mutex
	// last is the object as the last change left it, nil where that is not known. It
	// may be old by now.
	last *v1alpha1.Dataset
}

var _ ref.Seer = (*Heads)(nil)

// Get implements [ref.Heads]. Without a Dataset the error is a [MissingError],
// which does not wrap [fs.ErrNotExist].
func (h *Heads) Get(ctx context.Context, name ref.Name) (digest.ID, error) {
	object, err := h.read(ctx)
	if err != nil {
		return digest.ID{}, err
	}
	id, err := at(&object.Spec, name)
	if err == nil && id.IsZero() {
		err = fmt.Errorf("dataset %s: %s: %w", h.Name, name, fs.ErrNotExist)
	}
	return id, err
}

// List implements [ref.Heads].
func (h *Heads) List(ctx context.Context) (map[ref.Name]digest.ID, error) {
	object, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	return all(&object.Spec)
}

// Swap implements [ref.Heads]. Where the server's answer was lost, it is asked
// what has become of the change; only if that cannot be found out either, the
// error leaves open whether the heads have moved.
func (h *Heads) Swap(ctx context.Context, moves ...ref.Move) error {
	_, err := h.SwapSeeing(ctx, moves...)
	return err
}

// SwapSeeing implements [ref.Seer]: all heads are in the object that is changed.
func (h *Heads) SwapSeeing(ctx context.Context, moves ...ref.Move) (map[ref.Name]digest.ID, error) {
	prepared, err := h.prepare(ctx, moves)
	if err != nil {
		return nil, err
	}
	// Who has made the last change need not ask where it has led. That may be old by now:
	// nothing is concluded from it but a change that the server takes.
	for object := h.recall(); ; object = nil {
		recalled := object != nil
		if !recalled {
			if object, err = h.read(ctx); err != nil {
				return nil, err
			}
		}
		before := object.DeepCopy()
		if err := apply(&object.Spec, prepared); err != nil {
			if recalled {
				continue
			}
			return nil, err
		}
		untrack(object)
		// Only what has changed is sent, so that fields that a later version has
		// stay; the resourceVersion is sent with it.
		err := h.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		switch {
		case err == nil:
			where := seen(object) // before others have it
			h.remember(object)
			return where, nil
		case recalled && refused(err):
			// What was recalled is old: once more, from what there is.
		case apierrors.IsConflict(err):
			// Somebody else has changed the object: they have come further, and
			// if it was not this head, the next try may.
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		case apierrors.IsNotFound(err):
			return nil, &MissingError{Namespace: h.Namespace, Name: h.Name}
		case refused(err):
			return nil, fmt.Errorf("moving %s of dataset %s: %w", moves[0].Name, h.Name, err)
		default:
			return h.settle(ctx, moves, err)
		}
	}
}

// untrack has the API server not note anew, at each move of a head, who owns which field,
// which is a quarter of the CPU that a move costs it (kubernetes.io, Server-Side Apply,
// clearing managedFields). That stays where somebody has applied the object, by the server
// or by kubectl: they go by it when they apply it again.
func untrack(object *v1alpha1.Dataset) {
	owners := object.ManagedFields
	if len(owners) > 0 && !slices.ContainsFunc(owners, applied) {
		object.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	}
}

// applied says that fields were applied.
func applied(o metav1.ManagedFieldsEntry) bool {
	return o.Operation == metav1.ManagedFieldsOperationApply || o.Manager == kubectlApply
}

// kubectlApply is what kubectl calls itself where it applies without the server.
const kubectlApply = "kubectl-client-side-apply"

// seen are the heads of an object; nil where one cannot be read: that is told to whoever
// asks where it is.
func seen(object *v1alpha1.Dataset) map[ref.Name]digest.ID {
	heads, err := all(&object.Spec)
	if err != nil {
		return nil
	}
	return heads
}

// recall is the object as the last change left it, for one who forgets it thereby.
func (h *Heads) recall() *v1alpha1.Dataset {
	h.mu.Lock()
	defer h.mu.Unlock()
	object := h.last
	h.last = nil
	return object
}

func (h *Heads) remember(object *v1alpha1.Dataset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = object
}

// prepare checks changes before anything is read.
func (h *Heads) prepare(ctx context.Context, moves []ref.Move) ([]move, error) {
	at := time.Now()
	if h.Now != nil {
		at = h.Now()
	}
	prepared := make([]move, len(moves))
	for i, m := range moves {
		prepared[i] = move{name: m.Name, from: m.From, to: m.To, at: at}
		if err := checkName(m.Name); err != nil {
			return nil, err
		}
		if h.Measure == nil || m.To.IsZero() || m.From == m.To || m.Name.Kind == ref.Tag {
			continue
		}
		var err error
		if prepared[i].size, err = h.Measure(ctx, m.To); err != nil {
			return nil, fmt.Errorf("measuring commit %s: %w", m.To.Short(), err)
		}
	}
	return prepared, nil
}

// refused reports whether the server itself said that it did not do it.
func refused(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500
}

// settle finds out whether a change was made whose answer was lost; it is where the
// heads are then.
func (h *Heads) settle(ctx context.Context, moves []ref.Move, lost error) (map[ref.Name]digest.ID, error) {
	lost = fmt.Errorf("moving %s of dataset %s: %w", moves[0].Name, h.Name, lost)
	object, err := h.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w (and whether it was done could not be found out: %w)", lost, err)
	}
	if !done(object, moves) {
		return nil, lost
	}
	return seen(object), nil
}

// done says whether moves were made that others may have followed since: a commit that a
// head was to be at is the mark of all of them; where there is none, all has to be as it
// would be.
func done(object *v1alpha1.Dataset, moves []ref.Move) bool {
	as := true
	for _, m := range moves {
		found, err := at(&object.Spec, m.Name)
		if err == nil && m.From != m.To && !m.To.IsZero() && found == m.To {
			return true
		}
		as = as && err == nil && found == m.To
	}
	return as
}

func (h *Heads) read(ctx context.Context) (*v1alpha1.Dataset, error) {
	object := &v1alpha1.Dataset{}
	err := h.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, &MissingError{Namespace: h.Namespace, Name: h.Name}
	}
	if err != nil {
		return nil, fmt.Errorf("reading dataset %s: %w", h.Name, err)
	}
	return object, nil
}

// Everything shows the heads of all datasets that are in one store, for collections:
// whatever is made between two readings is in the second. Names in it are
// "namespace/dataset/name"; it only lists. What jobs that have not finished read is
// in it, too, as if it were a tag of the job.
type Everything struct {
	// Client reads from the API server itself: what a cache shows may be old.
	Client client.Reader
	// Namespace is the one that has a store of its own. Empty: all share one.
	Namespace string
}

var _ ref.Heads = Everything{}

// errOnlyLists is the error of what Everything does not do.
var errOnlyLists = errors.New("the heads of all datasets together can only be listed")

// Get implements [ref.Heads]: it is refused.
func (e Everything) Get(context.Context, ref.Name) (digest.ID, error) {
	return digest.ID{}, errOnlyLists
}

// Swap implements [ref.Heads]: it is refused.
func (e Everything) Swap(context.Context, ...ref.Move) error { return errOnlyLists }

// List implements [ref.Heads]. An error means that the heads are not known, and
// that nothing may be removed.
func (e Everything) List(ctx context.Context) (map[ref.Name]digest.ID, error) {
	list := &v1alpha1.DatasetList{}
	if err := e.Client.List(ctx, list, client.InNamespace(e.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the datasets: %w", err)
	}
	roots := map[ref.Name]digest.ID{}
	for i := range list.Items {
		object := &list.Items[i]
		heads, err := all(&object.Spec)
		if err != nil {
			return nil, fmt.Errorf("dataset %s/%s: %w", object.Namespace, object.Name, err)
		}
		for name, id := range heads {
			name.Name = object.Namespace + "/" + object.Name + "/" + name.Name
			roots[name] = id
		}
	}
	if err := e.read(ctx, roots); err != nil {
		return nil, err
	}
	return roots, nil
}

// read adds the commits that jobs read.
func (e Everything) read(ctx context.Context, roots map[ref.Name]digest.ID) error {
	list := &v1alpha1.TrainingJobList{}
	if err := e.Client.List(ctx, list, client.InNamespace(e.Namespace)); err != nil {
		return fmt.Errorf("listing the jobs that read data: %w", err)
	}
	for i := range list.Items {
		job := &list.Items[i]
		if job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed {
			continue
		}
		for k, d := range job.Status.Data {
			name := ref.Name{Kind: ref.Tag, Name: fmt.Sprintf("%s/job %s/%d", job.Namespace, job.Name, k)}
			id, err := commit(name, d.Commit)
			if err != nil {
				return err
			}
			roots[name] = id
		}
	}
	return nil
}
