package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/node/volume"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/people/owner"
)

// usersDir has a folder for each user, which is the user's.
func (c *Config) usersDir() string { return filepath.Join(c.DataDir, "users") }

// memoryDir has mount points of file systems in memory that belong to users; empty: Muster has one user.
func (c *Config) memoryDir() string {
	if !c.Shared {
		return ""
	}
	return filepath.Join(c.DataDir, "memory")
}

// keepApart lets users pass Muster's folder to their own, and none enter root's records and logs.
func (c *Config) keepApart() error {
	if !c.Shared {
		return nil
	}
	err := os.Chmod(c.DataDir, 0o711)
	for _, folder := range []string{c.podsDir(), c.jobsDir(), c.archiveDir()} {
		err = errors.Join(err, os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o700))
	}
	if err != nil {
		return fmt.Errorf("keeping users apart: %w", err)
	}
	return nil
}

// home returns the folder of a namespace's owner; nil: Muster has one user.
func (n *Node) home(ctx context.Context, namespace string) (*userfiles.Home, error) {
	if n.homes == nil {
		return nil, nil
	}
	uid, ok := owner.Of(namespace)
	if !ok {
		return nil, fmt.Errorf("namespace %s belongs to no user, whose files its pods could use", namespace)
	}
	user, err := n.users.Owner(ctx, namespace)
	if err != nil {
		return nil, err
	}
	_, gid := user.Numbers()
	home, err := n.homes.Of(userfiles.User{UID: uid, GID: gid, Groups: user.Groups()})
	return &home, err
}

// ownerHome is the folder of a namespace's owner for a removal, which works also while the directory of
// users is away; nil: there is none.
func (n *Node) ownerHome(namespace string) *userfiles.Home {
	uid, ok := owner.Of(namespace)
	if n.homes == nil || !ok {
		return nil
	}
	home := n.homes.Kept(uid)
	return &home
}

// podRoot is the real folder of v1alpha1.PodRoot for a pod.
func (n *Node) podRoot(namespace string, uid types.UID) string {
	if home := n.ownerHome(namespace); home != nil {
		return home.Place("pods", string(uid), "root").String()
	}
	return filepath.Join(n.config.podsDir(), string(uid), "root")
}

// makePodRoot makes a pod's root, and the folder in it for reports.
func (n *Node) makePodRoot(ctx context.Context, pod *corev1.Pod) error {
	root := n.podRoot(pod.Namespace, pod.UID)
	home, err := n.home(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	if home == nil {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return err
		}
		return makeReportFolder(root, pod)
	}
	place := home.Place("pods", string(pod.UID), "root")
	if reports(pod) {
		place = place.Join(filepath.Dir(strings.TrimPrefix(v1alpha1.ProgressPath, v1alpha1.PodRoot+"/")))
	}
	return home.MakeAll(ctx, place, 0o700)
}

// removeTemporary removes the temporary folders of a pod.
func (n *Node) removeTemporary(ctx context.Context, namespace string, uid types.UID) error {
	if home := n.ownerHome(namespace); home != nil {
		return home.Remove(ctx, n.scratch.Place(home, uid))
	}
	return n.scratch.Remove(ctx, uid)
}

// removePodFolders removes what a pod had in its owner's folder and in Muster's.
func (n *Node) removePodFolders(ctx context.Context, namespace string, uid types.UID) error {
	if home := n.ownerHome(namespace); home != nil {
		if err := home.Remove(ctx, home.Place("pods", string(uid))); err != nil {
			return err
		}
	}
	return osfile.RemoveTree(ctx, filepath.Join(n.config.podsDir(), string(uid)))
}

// removeJobFolder removes what members of a job shared. A file of root's names the user who has a part of it.
func (n *Node) removeJobFolder(ctx context.Context, job types.UID) error {
	folder := filepath.Join(n.config.jobsDir(), string(job))
	text, err := os.ReadFile(filepath.Join(folder, volume.OwnerFile))
	switch {
	case n.homes == nil || errors.Is(err, os.ErrNotExist):
		return os.RemoveAll(folder)
	case err != nil:
		return err
	}
	uid, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return fmt.Errorf("finding the user whose job it was: %w", err)
	}
	home := n.homes.Kept(uint32(uid))
	if err := home.Remove(ctx, home.Place("jobs", string(job))); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}
