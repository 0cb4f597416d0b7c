package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	content "github.com/containerd/containerd/api/services/content/v1"
	"github.com/containerd/containerd/api/types"
	spec "github.com/opencontainers/image-spec/specs-go/v1"
)

// variant is the part of an image that is for this machine.
type variant struct {
	manifest spec.Manifest
	settings spec.Image
}

// Docker's names for what OCI has its own for.
const (
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// mostDocument bounds the documents that describe an image, in bytes.
const mostDocument = 8 << 20

// depth bounds how many lists may lead to a manifest.
const depth = 4

// variant reads what an image's target leads to on this machine.
func (s *Store) variant(ctx context.Context, target *types.Descriptor) (variant, error) {
	kind, digest := target.MediaType, target.Digest
	for range depth {
		switch kind {
		case spec.MediaTypeImageIndex, dockerList:
			var list spec.Index
			if err := s.read(ctx, digest, &list); err != nil {
				return variant{}, err
			}
			next, err := pick(list.Manifests)
			if err != nil {
				return variant{}, err
			}
			kind, digest = next.MediaType, next.Digest.String()
		case spec.MediaTypeImageManifest, dockerManifest:
			var v variant
			if err := s.read(ctx, digest, &v.manifest); err != nil {
				return variant{}, err
			}
			if err := s.read(ctx, v.manifest.Config.Digest.String(), &v.settings); err != nil {
				return variant{}, err
			}
			return v, v.check()
		default:
			return variant{}, &Fault{NotUsable, fmt.Errorf("it is a %q, which is no image of a file system", kind)}
		}
	}
	return variant{}, &Fault{NotUsable, errors.New("its lists of variants lead to no manifest")}
}

// check refuses what would be unpacked wrongly.
func (v variant) check() error {
	if layers, named := len(v.manifest.Layers), len(v.settings.RootFS.DiffIDs); layers != named || layers == 0 {
		return &Fault{NotUsable, fmt.Errorf("it has %d layers, and its configuration names %d", layers, named)}
	}
	return nil
}

// pick chooses, of several, the manifest for Linux on this machine.
func pick(all []spec.Descriptor) (spec.Descriptor, error) {
	var have []string
	for _, d := range all {
		if d.Platform == nil {
			if len(all) == 1 {
				return d, nil
			}
			continue
		}
		if d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH {
			return d, nil
		}
		if d.Platform.OS != "unknown" { // signatures and the like
			have = append(have, d.Platform.OS+"/"+d.Platform.Architecture)
		}
	}
	return spec.Descriptor{}, &Fault{NotUsable, fmt.Errorf("it has no variant for linux/%s; it has %s", runtime.GOARCH, strings.Join(have, ", "))}
}

// read reads a document that containerd has.
func (s *Store) read(ctx context.Context, digest string, into any) error {
	ctx, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	stream, err := s.content.Read(ctx, &content.ReadContentRequest{Digest: digest})
	if err != nil {
		return fmt.Errorf("reading %s: %w", digest, absent(err))
	}
	var data []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", digest, absent(err))
		}
		if data = append(data, part.Data...); len(data) > mostDocument {
			return &Fault{NotUsable, fmt.Errorf("reading %s: it is longer than %d bytes", digest, mostDocument)}
		}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &Fault{NotUsable, fmt.Errorf("reading %s: %w", digest, err)}
	}
	return nil
}
