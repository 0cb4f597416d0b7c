package delete

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/muster-dev/muster/internal/cli/output"
)

// other is an object that is no training job.
type other struct {
	resource dynamic.ResourceInterface
	kind     schema.GroupKind
	name     string
	uid      types.UID
}

func (o other) reference() string { return output.Reference(o.kind, o.name) }

// drop asks the server to delete objects, and their dependents after them.
func (o *options) drop(ctx context.Context, others []other) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range others {
		group.Go(func() error {
			background := metav1.DeletePropagationBackground
			err := one.resource.Delete(ctx, one.name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &one.uid}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("deleting %s: %w", one.reference(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// pollEvery is the interval at which an object that is being deleted is read.
const pollEvery = 100 * time.Millisecond

// wait returns once the object is gone, or another one has its name.
func (o other) wait(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		now, err := o.resource.Get(ctx, o.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.GetUID() != o.uid:
			return nil
		case err != nil:
			return fmt.Errorf("looking for %s: %w", o.reference(), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// held names what keeps an object that is being deleted; empty where it is gone.
func (o other) held(ctx context.Context) (string, error) {
	now, err := o.resource.Get(ctx, o.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && now.GetUID() != o.uid:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("looking for %s: %w", o.reference(), err)
	}
	if by := now.GetFinalizers(); len(by) > 0 {
		return fmt.Sprintf("it has the finalizers %s, and goes once the controllers that set them have removed them", strings.Join(by, ", ")), nil
	}
	return "the API server still has it; it goes without this command", nil
}
