package image

import (
	"context"
	"errors"
	"fmt"
	"strings"

	leases "github.com/containerd/containerd/api/services/leases/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	"google.golang.org/grpc/codes"
)

// Mount is a part of a root, as containerd describes it.
type Mount struct {
	// Type is the file system's: overlay, bind, ...
	Type string
	// Source is what is mounted.
	Source string
	// Options are flags and what else the file system is told.
	Options []string
}

// Labels of leases.
const (
	labelOwner  = "muster.dev/owner"
	labelHolder = "muster.dev/holder"
)

func leaseOf(holder string) string { return "muster-" + holder }

// rootKey is the name of a container's root: "muster/<holder>/<container>/...".
func rootKey(id string) string { return "muster/" + id }

// hold sees to it that there is something by which a pod holds what it has.
func (s *Store) hold(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	_, err := s.leases.Create(ctx, &leases.CreateRequest{
		ID: leaseOf(holder), Labels: map[string]string{labelOwner: s.owner, labelHolder: holder},
	})
	if err != nil && !isCode(err, codes.AlreadyExists) {
		return fmt.Errorf("asking containerd at %s to keep what a pod needs: %s", s.socket, words(err))
	}
	return nil
}

// Root makes a container's root: the image, and a writable layer that is the
// container's own. The ID must begin with the holder's name and a slash; a root
// of that ID that was never used is made anew.
func (s *Store) Root(ctx context.Context, holder, id string, of Image) ([]Mount, error) {
	if !strings.HasPrefix(id, holder+"/") {
		return nil, fmt.Errorf("making the root of container %s: it is not one of %s", id, holder)
	}
	if err := s.RemoveRoot(ctx, id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(in(ctx, leaseOf(holder)), answerWithin)
	defer cancel()
	made, err := s.snapshots.Prepare(ctx, &snapshots.PrepareSnapshotRequest{Snapshotter: snapshotter, Key: rootKey(id), Parent: of.chain})
	if err != nil {
		return nil, fmt.Errorf("making a root of the image %s: %s", of.Name, words(err))
	}
	var mounts []Mount
	for _, m := range made.Mounts {
		mounts = append(mounts, Mount{Type: m.Type, Source: m.Source, Options: m.Options})
	}
	return mounts, nil
}

// RemoveRoot removes a container's root with what was written there. One that
// is not there is no error.
func (s *Store) RemoveRoot(ctx context.Context, id string) error { return s.remove(ctx, rootKey(id)) }

func (s *Store) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	_, err := s.snapshots.Remove(ctx, &snapshots.RemoveSnapshotRequest{Snapshotter: snapshotter, Key: key})
	if err != nil && !isCode(err, codes.NotFound) {
		return fmt.Errorf("removing the root of container %s: %s", strings.TrimPrefix(key, rootKey("")), words(err))
	}
	return nil
}

// Release removes the roots of a pod whose containers have ended and lets go of
// its images. One that holds nothing is no error. Images stay for the next.
func (s *Store) Release(ctx context.Context, holder string) error {
	ask, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	held, err := s.leases.ListResources(ask, &leases.ListResourcesRequest{ID: leaseOf(holder)})
	if isCode(err, codes.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking what the pod %s holds of containerd: %s", holder, words(err))
	}
	var errs []error
	for _, r := range held.Resources {
		if strings.HasPrefix(r.ID, rootKey(holder)+"/") {
			errs = append(errs, s.remove(ctx, r.ID))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// containerd cleans its disk when it is asked to, and not by itself.
	clean, cancel := context.WithTimeout(in(ctx, ""), cleanWithin)
	defer cancel()
	_, err = s.leases.Delete(clean, &leases.DeleteRequest{ID: leaseOf(holder), Sync: true})
	if err != nil && !isCode(err, codes.NotFound) {
		return fmt.Errorf("letting go of what the pod %s holds of containerd: %s", holder, words(err))
	}
	return nil
}

// Holders are the pods of this owner that hold something.
func (s *Store) Holders(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	all, err := s.leases.List(ctx, &leases.ListRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking who holds images of containerd: %s", words(err))
	}
	var out []string
	for _, l := range all.Leases {
		if l.Labels[labelOwner] == s.owner && l.Labels[labelHolder] != "" {
			out = append(out, l.Labels[labelHolder])
		}
	}
	return out, nil
}
