package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// View is how one container sees its pod's volumes.
type View struct {
	// Root is what MUSTER_ROOT is in the container.
	Root string
	// Dir is the container's working directory, as it sees it.
	Dir string
	// Mounts are laid over the host's tree; the isolated tier only.
	Mounts []process.Mount
	// Environment is the folder, as the container sees it, of the Python
	// environment mounted at v1alpha1.PodRoot/env; empty: none.
	Environment string
	// Links are the mounts of the plain tier, each a link in the pod's own
	// folder. What outlives the pod must name where they lead instead.
	Links []Link

	// points are the mounts of the isolated tier, as Links are those of the plain one.
	points []Link
	owner  *userfiles.Files
	real   string // the real folder of Root
}

// Link is a mount in the plain tier.
type Link struct {
	// At is where the container was told to look; To is the real folder.
	At, To string
	// Sub is the part of To below the volume. Programs may put links there.
	Sub string
	// Own is true where other volumes may be mounted in this one.
	Own bool
}

// Resolve returns a value that is a path through one of the links as the path
// that outlives the pod, and any other value as it is. Frameworks record the
// absolute paths they are given: a TensorFlow checkpoint names its files so.
func (v View) Resolve(value string) string {
	for _, link := range v.Links {
		if rest, ok := strings.CutPrefix(value, link.At); ok && (rest == "" || rest[0] == '/') {
			return link.To + rest
		}
	}
	return value
}

// Request asks for a container's view.
type Request struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Volumes   map[string]Volume
	// Root is the real folder that stands for v1alpha1.PodRoot. It exists.
	Root string
	// Owner works with the files of the user whose folder Root is. Nil: it is Muster's own.
	Owner *userfiles.Files
	// Isolated is true where the container has mounts of its own.
	Isolated bool
	// Image is true where it sees the files of an image and not the machine's.
	Image bool
	// Dir is the working directory of a container that names none; empty: Root.
	Dir string
	// Expand replaces variables, for subPathExpr.
	Expand func(string) string
}

// See makes a container's view: it creates sub-paths, and, in the plain tier,
// links below the pod's root.
func See(ctx context.Context, r Request) (View, error) {
	view := View{Root: r.Root, owner: r.Owner, real: r.Root}
	if r.Isolated {
		view.Root = v1alpha1.PodRoot
		view.Mounts = []process.Mount{{Source: r.Root, Target: v1alpha1.PodRoot, AsUser: r.Owner != nil}}
	}
	view.Dir = inside(view.Root, r.Container.WorkingDir)
	if view.Dir == "" {
		view.Dir = cmp.Or(r.Dir, view.Root)
	}
	// Outer mounts come before the ones inside them.
	mounts := slices.Clone(r.Container.VolumeMounts)
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int {
		return depth(r.target(&view, &a)) - depth(r.target(&view, &b))
	})
	for i := range mounts {
		if err := r.mount(ctx, &view, &mounts[i]); err != nil {
			return View{}, fmt.Errorf("mounting volume %q at %s: %w", mounts[i].Name, mounts[i].MountPath, err)
		}
	}
	return view, nil
}

func depth(p string) int { return strings.Count(path.Clean(p), "/") }

// inside moves a path below v1alpha1.PodRoot to where the root really is.
func inside(root, p string) string {
	if p == "" {
		return ""
	}
	clean := path.Clean(p)
	if admission.Below(clean, v1alpha1.PodRoot) {
		return path.Join(root, strings.TrimPrefix(clean, v1alpha1.PodRoot))
	}
	if !path.IsAbs(clean) {
		return path.Join(root, clean)
	}
	return clean
}

func (r *Request) mount(ctx context.Context, view *View, m *corev1.VolumeMount) error {
	v, ok := r.Volumes[m.Name]
	if !ok {
		return errors.New("the pod has no such volume")
	}
	base, sub, err := r.source(ctx, v, m)
	if err != nil {
		return err
	}
	source := filepath.Join(base, sub)
	target := r.target(view, m)
	if v.Environment && path.Clean(m.MountPath) == path.Join(v1alpha1.PodRoot, "env") {
		// A virtual environment knows its own path, so it is used where it
		// really lies; the mount is there for those who look for it.
		view.Environment = source
		if r.Image {
			view.Environment = target
		}
	}
	if r.Isolated {
		if err := r.point(ctx, view, v, source, target); err != nil {
			return err
		}
		view.points = append(view.points, Link{At: target, To: source, Sub: sub, Own: v.Own && !m.ReadOnly})
		view.Mounts = append(view.Mounts, process.Mount{
			Source: base, SubPath: sub, Target: target, ReadOnly: v.ReadOnly || m.ReadOnly, AsUser: v.Owner != nil,
		})
		return nil
	}
	if err := view.place(ctx, source, target); err != nil {
		return err
	}
	view.Links = append(view.Links, Link{At: target, To: source, Sub: sub, Own: v.Own})
	return nil
}

// target is where the container sees the mount.
func (r *Request) target(view *View, m *corev1.VolumeMount) string {
	clean := path.Clean(m.MountPath)
	switch {
	case !path.IsAbs(clean):
		return path.Join(view.Dir, clean)
	case !r.Isolated && admission.AutomaticToken(r.Pod, m):
		return path.Join(view.Root, "serviceaccount")
	}
	return inside(view.Root, clean)
}

// source returns the volume, and the path in it to mount, which source creates as a folder if it is
// not there. The path has no links. A program may put some there before the mount, which follows
// none.
func (r *Request) source(ctx context.Context, v Volume, m *corev1.VolumeMount) (base, sub string, err error) {
	asked := m.SubPath
	if m.SubPathExpr != "" {
		asked = r.Expand(m.SubPathExpr)
	}
	if asked == "" {
		return v.Path, "", nil
	}
	if path.IsAbs(asked) || !filepath.IsLocal(asked) {
		return "", "", fmt.Errorf("the subPath %q leaves the volume", asked)
	}
	if v.Owner != nil {
		p, err := v.Owner.Sub(ctx, userfiles.Place{Base: v.Path, Below: asked}, v.ReadOnly)
		return p.Base, p.Below, err
	}
	if err := makeSub(v, asked); err != nil {
		return "", "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(v.Path, asked))
	if err != nil {
		return "", "", err
	}
	if base, err = filepath.EvalSymlinks(v.Path); err != nil {
		return "", "", err
	}
	sub, err = filepath.Rel(base, real)
	if err != nil || !filepath.IsLocal(sub) {
		return "", "", fmt.Errorf("the subPath %q leads outside the volume", asked)
	}
	return base, sub, nil
}

// makeSub creates a path in a volume as a folder if it is not there.
func makeSub(v Volume, sub string) error {
	// os.Root refuses links that lead outside.
	root, err := os.OpenRoot(v.Path + "/.") // a pipe is not waited for
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, err = root.Stat(sub)
	if errors.Is(err, os.ErrNotExist) && !v.ReadOnly {
		if err := root.MkdirAll(sub, 0o755); err != nil {
			return fmt.Errorf("making the subPath %q: %w", sub, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the subPath %q: %w", sub, err)
	}
	return nil
}
