package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/image"
	"github.com/muster-dev/muster/internal/node/lifecycle"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/pullsecret"
)

const (
	// reasonImageBackOff is a kubelet's word for waiting before an image that
	// could not be pulled is tried again.
	reasonImageBackOff = "ImagePullBackOff"
	// sweepEvery is how often what nobody holds any more is given back.
	sweepEvery = 10 * time.Minute
	// checkWithin bounds the question whether images can be run now.
	checkWithin = 3 * time.Second
)

// needsImages is true for a pod with containers in images.
func (n *Node) needsImages(pod *corev1.Pod) bool {
	imaged := func(ctr corev1.Container) bool { return admission.Imaged(n.config.Images, &ctr) }
	return slices.ContainsFunc(pod.Spec.InitContainers, imaged) || slices.ContainsFunc(pod.Spec.Containers, imaged)
}

// noImages says why images cannot be run now; empty: they can.
func (n *Node) noImages() string {
	if n.config.ImageStore == nil {
		if n.config.NoImages != "" {
			return n.config.NoImages
		}
		return "this Muster was not told of a containerd that runs images"
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
	defer cancel()
	if _, err := n.config.ImageStore.Check(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// fetch makes sure, in a task, that every image of the pod is here. Of a pod
// that is not new, images that are here are those that it was started with.
func (w *worker) fetch(ctx context.Context, pod *corev1.Pod, fresh bool) {
	got := map[string]image.Image{}
	for _, ctr := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !admission.Imaged(w.node.config.Images, &ctr) {
			continue
		}
		policy := image.Policy(ctr.ImagePullPolicy)
		if !fresh && policy != image.PolicyNever {
			policy = image.PolicyIfNotPresent
		}
		one, ok := w.fetchOne(ctx, pod, ctr.Name, image.Request{
			Holder: string(w.uid), Name: ctr.Image, Policy: policy,
			Pulling: func() { w.tellImage(ctr.Name, reasonCreating, "pulling the image "+ctr.Image) },
		})
		if !ok {
			w.post(func() { w.preparing = nil })
			return
		}
		got[ctr.Name] = one
	}
	w.post(func() { w.fetched(got) })
}

// fetchOne tries until an image is here, with longer and longer pauses. It
// returns false once ctx has ended.
func (w *worker) fetchOne(ctx context.Context, pod *corev1.Pod, container string, r image.Request) (image.Image, bool) {
	for tries := 1; ; tries++ {
		r.Credentials = w.node.pullCredentials(ctx, pod)
		got, err := w.fetchFrom(ctx, r)
		if err == nil {
			return got, true
		}
		if ctx.Err() != nil {
			return image.Image{}, false
		}
		reason, pause := string(image.ReasonOf(err)), lifecycle.BackOff(tries+1)
		if tries > 1 && reason == string(image.PullFailed) {
			reason = reasonImageBackOff
		}
		w.tellImage(container, reason, fmt.Sprintf("%v (tried %d times; again in %s)", err, tries, pause))
		select {
		case <-ctx.Done():
			return image.Image{}, false
		case <-w.node.config.Clock.After(pause):
		}
	}
}

func (w *worker) fetchFrom(ctx context.Context, r image.Request) (image.Image, error) {
	if w.node.config.ImageStore == nil {
		return image.Image{}, errors.New(w.node.noImages())
	}
	return w.node.config.ImageStore.Fetch(ctx, r)
}

// tellImage shows what a container that has not started waits for.
func (w *worker) tellImage(container, reason, message string) {
	w.post(func() {
		for _, u := range w.units {
			if u.spec.Name == container && u.proc == nil && u.last == nil {
				u.wait = waiting{reason: reason, message: message}
			}
		}
		if reason != reasonCreating {
			w.log.Warn("an image cannot be used", "container", container, "reason", message)
		}
	})
}

// fetched takes over the pod's images.
func (w *worker) fetched(got map[string]image.Image) {
	w.preparing, w.images = nil, got
	for _, u := range w.units {
		if one, ok := got[u.spec.Name]; ok {
			u.imageID = one.Digest
			if name, _, tagged := strings.Cut(one.Name, "@"); !tagged {
				u.imageID = name + "@" + one.Digest
			}
		}
		if u.proc == nil && u.last == nil {
			u.wait = waiting{}
		}
	}
}

// pullCredentials reads the pod's secrets for registries. One that is missing,
// or says something else, is left out: the registry says what it wants.
func (n *Node) pullCredentials(ctx context.Context, pod *corev1.Pod) []image.Credential {
	var out []image.Credential
	for _, named := range pod.Spec.ImagePullSecrets {
		secret, err := n.objects.Secret(ctx, pod.Namespace, named.Name)
		if err == nil {
			var some []image.Credential
			some, err = pullsecret.Credentials(secret)
			out = append(out, some...)
		}
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			n.config.Log.Warn("reading a secret for a registry", "secret", pod.Namespace+"/"+named.Name, "error", err)
		}
	}
	return out
}

// begin starts an attempt, in a root of its image where it has one.
func (w *worker) begin(s process.Spec, u *unit) (*process.Process, error) {
	img, imaged := w.images[u.spec.Name]
	if !imaged {
		return w.node.config.Runtime.Start(w.ctx, s)
	}
	if give := w.node.config.ImageUsers; give != nil {
		var err error
		if s.Isolation.Users, err = give(w.pod.Namespace); err != nil {
			return nil, &process.StartError{Reason: process.ReasonUser, Code: 128, Message: err.Error()}
		}
	}
	mounts, err := w.node.config.ImageStore.Root(w.ctx, string(w.uid), s.ID, img)
	if err != nil {
		return nil, err
	}
	if c := u.spec.SecurityContext; c != nil && c.ReadOnlyRootFilesystem != nil {
		s.Isolation.ReadOnlyRoot = *c.ReadOnlyRootFilesystem
	}
	for _, m := range mounts {
		s.Isolation.Root = append(s.Isolation.Root, process.RootMount{Type: m.Type, Source: m.Source, Options: m.Options})
	}
	p, err := w.node.config.Runtime.Start(w.ctx, s)
	if err != nil {
		err = errors.Join(err, w.node.config.ImageStore.RemoveRoot(context.WithoutCancel(w.ctx), s.ID))
	}
	return p, err
}

// removeRoot removes the root of an attempt that has ended.
func (w *worker) removeRoot(p *process.Process) {
	iso := p.Spec().Isolation
	if iso == nil || len(iso.Root) == 0 || w.node.config.ImageStore == nil {
		return
	}
	if err := w.node.config.ImageStore.RemoveRoot(w.ctx, p.Spec().ID); err != nil && w.ctx.Err() == nil {
		w.log.Warn("an attempt has ended", "error", err) // the pod's end tries again
	}
}

// releaseImages gives back what a pod holds of images. What cannot be given
// back now is given back by sweepImages.
func (n *Node) releaseImages(ctx context.Context, uid types.UID) {
	if n.config.ImageStore == nil {
		return
	}
	if err := n.config.ImageStore.Release(ctx, string(uid)); err != nil && ctx.Err() == nil {
		n.config.Log.Warn("giving back a pod's images", "uid", string(uid), "error", err)
	}
}

// keepImages gives back what pods hold that are gone, now and every now and
// then.
func (n *Node) keepImages(ctx context.Context) {
	if n.config.ImageStore == nil {
		return
	}
	for {
		n.sweepImages(ctx)
		n.expireImages(ctx)
		select {
		case <-ctx.Done():
			return
		case <-n.config.Clock.After(sweepEvery):
		}
	}
}

// sweepImages gives back what is held for pods that have no folder here: it is
// made before a pod holds anything, and removed last. A containerd that is not
// there holds nothing that could be given back.
func (n *Node) sweepImages(ctx context.Context) {
	if n.noImages() != "" {
		return
	}
	holders, err := n.config.ImageStore.Holders(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.config.Log.Warn("looking for images that nobody holds any more", "error", err)
		}
		return
	}
	for _, uid := range holders {
		if _, err := os.Stat(filepath.Join(n.config.podsDir(), uid)); errors.Is(err, os.ErrNotExist) {
			n.releaseImages(ctx, types.UID(uid))
		}
	}
}

// expireImages removes images that were pulled and that no pod has named for
// long.
func (n *Node) expireImages(ctx context.Context) {
	if n.config.ImageRetention <= 0 || n.noImages() != "" {
		return
	}
	var named []string
	for _, object := range n.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			for _, ctr := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				named = append(named, ctr.Image)
			}
		}
	}
	removed, err := n.config.ImageStore.Expire(ctx, n.config.Clock.Now().Add(-n.config.ImageRetention), named)
	if err != nil && ctx.Err() == nil {
		n.config.Log.Warn("removing images that nobody has used for long", "error", err)
	}
	if len(removed) > 0 {
		n.config.Log.Info("removed images that nobody has used for long", "images", removed)
	}
}

// argvOf is what a container runs: its command takes the place of the image's
// entry point, and the image's command with it; its arguments that of the
// image's command.
func argvOf(ctr *corev1.Container, img image.Image) []string {
	switch {
	case len(ctr.Command) > 0:
		return slices.Concat(ctr.Command, ctr.Args)
	case len(ctr.Args) > 0:
		return slices.Concat(img.Entrypoint, ctr.Args)
	}
	return slices.Concat(img.Entrypoint, img.Command)
}

// dirOf is where a container runs that does not say so.
func dirOf(imaged bool, img image.Image) string {
	switch {
	case img.Dir == "" && !imaged:
		return ""
	case img.Dir == "":
		return "/"
	}
	return filepath.Join("/", img.Dir)
}

// imageDefaults adds the variables that a container has from its image besides its own.
func imageDefaults(v *expansion.Variables, img image.Image) {
	for _, pair := range img.Env {
		name, value, _ := strings.Cut(pair, "=")
		v.Default(name, value)
	}
}

// imageOf is the image that a unit runs in, and true; or the mapping of its image on this machine,
// and false.
func (w *worker) imageOf(u *unit) (img image.Image, imaged bool) {
	if img, imaged = w.images[u.spec.Name]; imaged {
		return img, true
	}
	to, _ := w.node.config.Images.Find(u.spec.Image)
	return image.Image{Name: u.spec.Image, Entrypoint: to.Entrypoint, Command: to.Command, Env: to.Variables(), Dir: to.WorkingDir}, false
}

// accountOf is whom a container runs as: what the pod says comes before the
// image, whose names its own files explain.
func accountOf(img image.Image, uid, gid *int64, nonRoot bool) (string, error) {
	user, group, _ := strings.Cut(img.User, ":")
	if uid != nil {
		user, group = strconv.FormatInt(*uid, 10), ""
	}
	if user == "" {
		user = "0"
	}
	if gid != nil {
		group = strconv.FormatInt(*gid, 10)
	}
	if nonRoot {
		switch number, err := strconv.ParseUint(user, 10, 31); { // as the shim reads it
		case err != nil:
			return "", fmt.Errorf("runAsNonRoot is true, and the image %s runs as %q, of which it is not known here whether that is root: set runAsUser to its number", img.Name, user)
		case number == 0:
			return "", fmt.Errorf("runAsNonRoot is true, and the image %s runs as root: set runAsUser", img.Name)
		}
	}
	if group == "" {
		return user, nil
	}
	return user + ":" + group, nil
}

// imageMounts are the files of the machine that an image's container needs
// besides its volumes: how names are found, where it is on the machine's
// network, and the driver's libraries for GPUs of its own.
func (w *worker) imageMounts(pod *corev1.Pod, u *unit) []process.Mount {
	files := map[string]string{} // by target
	if w.node.shared(pod) {
		files["/etc/hosts"], files["/etc/resolv.conf"] = "/etc/hosts", "/etc/resolv.conf"
	}
	for _, d := range w.node.inventory.Devices() {
		if d.Node != "" && slices.Contains(u.gpus, d.UUID) {
			for _, f := range gpu.DriverFiles("/") {
				files[f.To] = f.From
			}
		}
	}
	var out []process.Mount
	for _, to := range slices.Sorted(maps.Keys(files)) {
		if _, err := os.Stat(files[to]); err == nil && !mountsAt(u.spec, to) {
			out = append(out, process.Mount{Source: files[to], Target: to, ReadOnly: true})
		}
	}
	return out
}
