package image

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	content "github.com/containerd/containerd/api/services/content/v1"
	diff "github.com/containerd/containerd/api/services/diff/v1"
	leases "github.com/containerd/containerd/api/services/leases/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/opencontainers/go-digest"
	spec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// chains are the names of an image's layers, each with those below it, as all
// clients of containerd give them.
func chains(layers []digest.Digest) []string {
	out := make([]string, len(layers))
	for i, layer := range layers {
		if i == 0 {
			out[i] = layer.String()
			continue
		}
		out[i] = digest.FromString(out[i-1] + " " + layer.String()).String()
	}
	return out
}

// unpack lays an image's layers over one another where that was not done
// before, has the holder hold the result, and returns its name.
func (s *Store) unpack(ctx context.Context, holder string, v variant) (string, error) {
	names := chains(v.settings.RootFS.DiffIDs)
	top := names[len(names)-1]
	switch err := s.keep(ctx, holder, top); {
	case err == nil:
		return top, nil
	case !isCode(err, codes.NotFound):
		return "", errors.New(words(err))
	}
	parent := ""
	for i, name := range names {
		if err := s.apply(ctx, holder, v.manifest.Layers[i], v.settings.RootFS.DiffIDs[i], name, parent); err != nil {
			return "", fmt.Errorf("layer %d of %d: %w", i+1, len(names), err)
		}
		parent = name
	}
	// As long as the image is there, so is what it was unpacked to.
	label := "containerd.io/gc.ref.snapshot." + snapshotter
	_, err := s.content.Update(in(ctx, ""), &content.UpdateRequest{
		Info:       &content.Info{Digest: v.manifest.Config.Digest.String(), Labels: map[string]string{label: top}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + label}},
	})
	if err == nil {
		err = s.keep(ctx, holder, top)
	}
	if err != nil {
		return "", absent(err)
	}
	return top, nil
}

// keep has a holder hold something that was unpacked.
func (s *Store) keep(ctx context.Context, holder, name string) error {
	ctx, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	if _, err := s.snapshots.Stat(ctx, &snapshots.StatSnapshotRequest{Snapshotter: snapshotter, Key: name}); err != nil {
		return err
	}
	_, err := s.leases.AddResource(ctx, &leases.AddResourceRequest{
		ID: leaseOf(holder), Resource: &leases.Resource{ID: name, Type: "snapshots/" + snapshotter},
	})
	return err
}

// apply unpacks one layer over its parent, under its name.
func (s *Store) apply(ctx context.Context, holder string, layer spec.Descriptor, content digest.Digest, name, parent string) error {
	if s.keep(ctx, holder, name) == nil {
		return nil
	}
	ctx = in(ctx, leaseOf(holder))
	key := "unpack-" + rand.Text() + " " + name
	work, err := s.snapshots.Prepare(ctx, &snapshots.PrepareSnapshotRequest{Snapshotter: snapshotter, Key: key, Parent: parent})
	if err != nil {
		return absent(err)
	}
	err = s.fill(ctx, layer, content, work.Mounts)
	if err == nil {
		_, err = s.snapshots.Commit(ctx, &snapshots.CommitSnapshotRequest{Snapshotter: snapshotter, Name: name, Key: key})
		if err == nil {
			return nil
		}
		if !isCode(err, codes.AlreadyExists) { // another Muster was faster
			err = absent(err)
		} else {
			err = nil
		}
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	_, removeErr := s.snapshots.Remove(clean, &snapshots.RemoveSnapshotRequest{Snapshotter: snapshotter, Key: key})
	return errors.Join(err, removeErr)
}

// fill writes a layer's files and compares them with what was promised.
func (s *Store) fill(ctx context.Context, layer spec.Descriptor, content digest.Digest, mounts []*types.Mount) error {
	done, err := s.diff.Apply(ctx, &diff.ApplyRequest{
		Diff:   &types.Descriptor{MediaType: layer.MediaType, Digest: layer.Digest.String(), Size: layer.Size, Annotations: layer.Annotations},
		Mounts: mounts,
	})
	if err != nil {
		return absent(err)
	}
	if done.Applied.Digest != content.String() {
		return &Fault{NotUsable, fmt.Errorf("its content is %s, and the image promises %s", done.Applied.Digest, content)}
	}
	return nil
}
