package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/identity"
	"github.com/muster-dev/muster/internal/node/scratch"
)

// lookUpWithin bounds the wait of a pod's worker for the directory of users. A lookup goes on without
// it, and a later try has the answer.
const lookUpWithin = time.Second

// ownerOf returns, in a task, the owner of the pod's namespace for admission; nil: the Muster has one
// user, or the namespace belongs to none. It waits for the directory of users, with the reason shown, and
// returns false when ctx ends before that.
func (w *worker) ownerOf(ctx context.Context, pod *corev1.Pod) (owner *admission.Owner, ok bool) {
	if !w.node.config.Shared {
		return nil, true
	}
	ok = w.insist(ctx, reasonCreating, func() error {
		user, err := w.node.users.Owner(ctx, pod.Namespace)
		if errors.Is(err, identity.ErrNoOwner) {
			return nil // and admission refuses the pod
		}
		if err != nil {
			return err
		}
		uid, gid := user.Numbers()
		owner = &admission.Owner{UID: int64(uid), GID: int64(gid)}
		return nil
	})
	return owner, ok
}

// userOf returns whom a container runs as that has the files of this machine.
func (w *worker) userOf(pod *corev1.Pod, ctr *corev1.Container) (identity.User, error) {
	ctx, cancel := context.WithTimeout(w.ctx, lookUpWithin)
	defer cancel()
	user, err := w.node.users.Of(ctx, pod, ctr)
	if ctx.Err() != nil && w.ctx.Err() == nil {
		err = fmt.Errorf("waiting for the directory of users: %w", err)
	}
	return user, err
}

// tellHome sets HOME, and USER for whoever runs Muster.
func (w *worker) tellHome(v *expansion.Variables, user identity.User, pod *corev1.Pod, ctr *corev1.Container, r scratch.HomeRequest) (identity.User, error) {
	if user.Shared() {
		spare, err := r.Spare(w.ctx)
		if err != nil {
			return user, err
		}
		return user.HomeIn(v, spare), nil
	}
	_, gid := user.Numbers()
	if r.UID, r.GID = admission.User(pod, ctr); r.UID != nil {
		group := int64(gid)
		r.GID = &group
	}
	return user, w.node.scratch.TellHome(w.ctx, v, r)
}
