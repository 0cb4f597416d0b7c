package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/footprint"
	"github.com/muster-dev/muster/internal/people/owner"
)

// reasonEvicted is the reason of a pod that was stopped for the disk space of its user, as a kubelet's.
const reasonEvicted = "Evicted"

// newFootprint bounds the files of users; nil: Muster has one user.
func (n *Node) newFootprint() *footprint.Keeper {
	if n.homes == nil {
		return nil
	}
	return footprint.New(footprint.Options{
		Users: n.homes.Users, Quota: n.config.UserDisk, Clock: n.config.Clock, Log: n.config.Log,
		Measure: footprint.Measurer(n.homes, n.config.volumesDir(), filepath.Join(n.config.DataDir, "environments")),
		Short:   func() int64 { return footprint.Short(n.config.DataDir) },
		Running: func(uid uint32) []string { return n.live.PodsIn(owner.Namespace(uid)) },
		Evict:   func(pod, message string, short bool) { n.evict(types.UID(pod), message, short) },
		Name:    n.login, Rest: 4 * n.config.LookEvery,
	})
}

// login is the login of a user, or "uid N".
func (n *Node) login(uid uint32) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if found, known, err := n.config.Accounts.ByUID(ctx, uid); err == nil && known {
		return found.Login
	}
	return fmt.Sprintf("uid %d", uid)
}

// hurry is how long the containers of a pod have to end if the disk is short of space.
const hurry = time.Second

// evict stops a pod, within its grace period unless the disk is short of space.
func (n *Node) evict(uid types.UID, message string, short bool) {
	for _, w := range n.list() {
		if w.uid == uid {
			w.post(func() {
				if w.ending() || w.over {
					return
				}
				n.recorder.Event(w.pod, corev1.EventTypeWarning, reasonEvicted, message)
				w.hurried = short
				w.fail(reasonEvicted, message)
			})
		}
	}
}

// dropFiles removes the folders of a pod that was evicted: the pod may stay in the API for days.
func (w *worker) dropFiles(evicted bool) {
	home := w.node.ownerHome(w.namespace)
	if !evicted || home == nil {
		return
	}
	if err := home.Remove(w.ctx, home.Place("pods", string(w.uid))); err != nil {
		w.log.Warn("removing the files of an evicted pod", "error", err)
	}
}

// Refusal is why a user with too many files gets nothing new in the namespace; empty: nothing is against it.
func (n *Node) Refusal(namespace string) string {
	uid, ok := owner.Of(namespace)
	if n.footprint == nil || !ok {
		return ""
	}
	return n.footprint.Refusal(uid)
}
