package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/identity"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/scratch"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/node/volume"
)

const (
	// lockTries is how often a GPU's lock is tried before the pod is refused:
	// a shim that has just ended may still hold it.
	lockTries = 20
	lockPause = 100 * time.Millisecond
)

// launch starts a unit's next attempt and records what came of it.
func (w *worker) launch(u *unit) {
	now := w.node.config.Clock.Now()
	spec, err := w.spec(u)
	if err != nil {
		u.wait = waiting{reason: reasonConfigError, message: err.Error()}
		u.notBefore = now.Add(retryEvery)
		w.watchObjects()
		return
	}
	p, err := w.begin(spec, u)
	var refused *process.StartError
	switch {
	case err == nil:
		if w.start.IsZero() {
			w.start = now
		}
		u.begin(p)
		w.node.live.Add(p)
		w.attend(u, false)
		w.prune(u)
	case w.ctx.Err() != nil:
		u.notBefore = now.Add(retryEvery)
	case errors.As(err, &refused) && refused.Reason == process.ReasonLockHeld:
		w.lockHeld(u, refused.Message)
	case errors.As(err, &refused):
		u.next = spec.Restart + 1
		u.wait = waiting{}
		u.conclude(spec.ID, process.Exit{Code: refused.Code, StartedAt: now, FinishedAt: now, Reason: refused.Reason, Err: refused.Message})
	default:
		u.wait = waiting{reason: reasonCreateError, message: err.Error()}
		u.notBefore = now.Add(retryEvery)
	}
}

// watchObjects wakes the worker when a ConfigMap or Secret changes.
func (w *worker) watchObjects() {
	changed := w.node.objects.Changed()
	w.task(func() {
		select {
		case <-changed:
			w.post(func() {
				for _, u := range w.units {
					if u.wait.reason == reasonConfigError {
						u.notBefore = time.Time{}
					}
				}
			})
		case <-w.ctx.Done():
		case <-w.node.config.Clock.After(retryEvery):
		}
	})
}

// spec says what a unit's next attempt runs.
func (w *worker) spec(u *unit) (process.Spec, error) {
	pod := w.podNow()
	img, imaged := w.imageOf(u)
	isolated := w.node.config.Tier == Isolated || imaged
	root := w.node.podRoot(w.namespace, w.uid)
	seen := root
	if isolated {
		seen = v1alpha1.PodRoot
	}
	home, err := w.node.home(w.ctx, w.namespace)
	if err != nil {
		return process.Spec{}, err
	}
	variables, user, err := w.variables(pod, u, seen, home)
	if err != nil {
		return process.Spec{}, err
	}
	view, err := volume.See(w.ctx, volume.Request{
		Pod: pod, Container: u.spec, Volumes: w.place.volumes, Root: root, Isolated: isolated, Expand: variables.Expand,
		Image: imaged, Dir: dirOf(imaged, img), Owner: filesOf(home),
	})
	if err != nil {
		return process.Spec{}, err
	}
	variables.Map(view.Resolve)
	s := process.Spec{
		ID:        fmt.Sprintf("%s/%s/%d", w.uid, u.spec.Name, u.next),
		PodUID:    string(w.uid),
		Container: u.spec.Name,
		Restart:   u.next,
		Argv:      variables.ExpandAll(argvOf(u.spec, img)),
		Dir:       view.Dir,
		TTY:       u.spec.TTY,
		Stdin:     u.spec.Stdin,
		StdinOnce: u.spec.StdinOnce,
		Labels:    map[string]string{"namespace": pod.Namespace, "name": pod.Name},
	}
	if imaged && len(s.Argv) == 0 {
		return process.Spec{}, fmt.Errorf("the image %s says of no program that it is to be run, and neither does the pod: set its command", img.Name)
	}
	if err := w.setUser(&s, pod, u.spec, user); err != nil {
		return process.Spec{}, err
	}
	folders, err := w.node.scratch.Make(w.ctx, scratch.Request{
		Pod: pod, Container: u.spec, Isolated: isolated, Image: imaged, OtherUser: s.UID != nil, Environment: w.activate(variables, view, u),
		Home: home,
	})
	if err != nil {
		return process.Spec{}, err
	}
	folders.Tell(variables)
	s.Locks, s.Limits = w.gpus(variables, u, &s, isolated), w.node.config.Limits.For(u.spec)
	if isolated {
		if err := w.isolate(&s, pod, u, append(folders.Mounts, view.Mounts...)); err != nil {
			return process.Spec{}, err
		}
		if s.Limits != nil {
			s.Isolation.SharedMemoryBytes = s.Limits.MemoryBytes
		}
	}
	s.Env = variables.List()
	return s, w.tellLast(&s, u, &view)
}

// filesOf works with the files of a home; nil: Muster has one user.
func filesOf(home *userfiles.Home) *userfiles.Files {
	if home == nil {
		return nil
	}
	return home.Files
}

// variables are those of a container, and whom it runs as; no user where its image says that.
func (w *worker) variables(pod *corev1.Pod, u *unit, root string, home *userfiles.Home) (v *expansion.Variables, user identity.User, err error) {
	v, err = expansion.Environment(expansion.Input{
		Pod: pod, Container: u.spec, Root: root,
		Services:    w.node.directory.Variables(pod),
		Allocatable: w.node.allocatable(),
		Lookup:      volume.Lookup(w.ctx, w.node.objects, pod.Namespace),
	})
	if err != nil {
		return nil, user, err
	}
	img, imaged := w.imageOf(u)
	if imageDefaults(v, img); imaged {
		v.Default("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
		v.Default("HOSTNAME", hostname(pod))
		return v, user, nil
	}
	if user, err = w.userOf(pod, u.spec); err != nil {
		return nil, user, err
	}
	user.Tell(v)
	v.Default("HOSTNAME", hostname(pod))
	user, err = w.tellHome(v, user, pod, u.spec, scratch.HomeRequest{Root: w.node.podRoot(w.namespace, w.uid), Seen: root, Container: u.spec.Name, Owner: filesOf(home)})
	return v, user, err
}

// hostname is the pod's own host name.
func hostname(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostnameOverride != nil:
		return *pod.Spec.HostnameOverride
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	}
	return pod.Name
}

func (w *worker) setUser(s *process.Spec, pod *corev1.Pod, ctr *corev1.Container, user identity.User) (err error) {
	s.NoNewPrivileges = admission.Unprivileged(ctr)
	img, imaged := w.images[ctr.Name]
	if !imaged {
		return user.Set(s)
	}
	uid, gid := admission.User(pod, ctr)
	if s.Account, err = accountOf(img, uid, gid, admission.NonRoot(pod, ctr)); err == nil {
		s.Home, err = scratch.HomeInImage(scratch.HomeRequest{Root: w.node.podRoot(w.namespace, w.uid), Seen: v1alpha1.PodRoot, Container: ctr.Name}, s.Account)
	}
	return err
}

// activate puts the container into its Python environment, which it returns: the one mounted, or
// the one that its image stands for.
func (w *worker) activate(v *expansion.Variables, view volume.View, u *unit) (folder string) {
	folder = view.Environment
	if _, imaged := w.images[u.spec.Name]; folder == "" && !imaged {
		folder, _ = admission.Environment(w.node.config.Images, u.spec.Image)
	}
	if folder != "" {
		expansion.Activate(v, folder)
	}
	return folder
}

// gpus shows the container its GPUs and no others, and returns their locks.
func (w *worker) gpus(v *expansion.Variables, u *unit, s *process.Spec, isolated bool) []string {
	var own []gpu.Device
	var locks, nodes []string
	for _, d := range w.node.inventory.Devices() {
		for _, uuid := range u.gpus {
			if d.UUID == uuid {
				own = append(own, d)
				if part := admission.ShareOf(w.pod); part == (admission.Share{}) {
					locks = append(locks, gpu.LockPath(uuid))
				} else {
					w.share(v, s, d, isolated)
				}
				if d.Node != "" {
					nodes = append(nodes, d.Node)
				}
			}
		}
	}
	for _, pair := range gpu.Environ(own, isolated && admission.GPUsAlone(w.pod, v.Get)) {
		if name, value, _ := strings.Cut(pair, "="); name == gpu.OrderVariable {
			v.Default(name, value)
		} else {
			v.Set(name, value)
		}
	}
	if isolated {
		s.Isolation = &process.Isolation{HideGPUs: true, GPUDeviceNodes: nodes}
	}
	return locks
}

// isolate gives the container the pod's network and files of its own.
func (w *worker) isolate(s *process.Spec, pod *corev1.Pod, u *unit, mounts []process.Mount) error {
	if s.Isolation == nil {
		s.Isolation = &process.Isolation{}
	}
	_, imaged := w.images[u.spec.Name]
	s.Isolation.Mounts, s.Isolation.Confine = mounts, admission.Confined(u.spec, s.UID, s.Account)
	if imaged {
		s.Isolation.Mounts = append(s.Isolation.Mounts, w.imageMounts(pod, u)...)
	}
	if w.node.shared(pod) {
		return nil
	}
	s.Isolation.NetNS, s.Isolation.Hostname = w.place.netNS, hostname(pod)
	names, err := w.names(pod)
	if err != nil {
		return err
	}
	for _, m := range names {
		if !mountsAt(u.spec, m.Target) {
			s.Isolation.Mounts = append(s.Isolation.Mounts, m)
		}
	}
	return nil
}

func mountsAt(ctr *corev1.Container, target string) bool {
	return slices.ContainsFunc(ctr.VolumeMounts, func(m corev1.VolumeMount) bool { return filepath.Clean(m.MountPath) == target })
}

// names writes the pod's hosts file and resolver configuration.
func (w *worker) names(pod *corev1.Pod) ([]process.Mount, error) {
	folder := filepath.Join(w.node.config.podsDir(), string(w.uid), "etc")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("making the pod's name files: %w", err)
	}
	files := map[string][]byte{
		"hosts":       network.HostsFile(hostEntries(pod, w.place.ip)),
		"resolv.conf": w.node.resolvConf(pod),
	}
	var mounts []process.Mount
	for _, name := range []string{"hosts", "resolv.conf"} {
		if files[name] == nil {
			continue
		}
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return nil, fmt.Errorf("writing the pod's %s: %w", name, err)
		}
		mounts = append(mounts, process.Mount{Source: file, Target: "/etc/" + name})
	}
	return mounts, nil
}

// tellLast says where the container leaves its last words. In the plain
// tier only a path below the pod's root can be the container's own; the
// default is a path of the machine that all would share.
func (w *worker) tellLast(s *process.Spec, u *unit, view *volume.View) (err error) {
	target := cmp.Or(u.spec.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	target = path.Clean(target)
	if s.Isolation == nil {
		if inside, ok := strings.CutPrefix(target, v1alpha1.PodRoot+"/"); ok {
			s.TerminationMessageRoot, s.TerminationMessagePath, err = view.Message(w.ctx, path.Join(view.Root, inside))
			s.TerminationMessageAsUser = w.node.homes != nil
		}
		return err
	}
	s.TerminationMessagePath = target
	if err := view.MakePoint(w.ctx, target, false); err != nil {
		return err
	}
	s.TerminationMessageFile, err = volume.MakeMessage(
		filepath.Join(w.node.config.podsDir(), string(w.uid), "termination"), fmt.Sprintf("%s.%d", u.spec.Name, u.next))
	s.Isolation.Mounts = append(s.Isolation.Mounts, process.Mount{Source: s.TerminationMessageFile, Target: target})
	return err
}

// prune removes the folders of attempts but the last two, and keeps what they
// used in the record.
func (w *worker) prune(u *unit) {
	for len(u.kept) > 1 {
		p := u.kept[0]
		exit := p.Exit()
		next := *w.record
		next.Past.CPUSeconds += exit.CPUSeconds
		next.Past.MaxRSSBytes = max(next.Past.MaxRSSBytes, exit.MaxRSSBytes)
		if next.Past.Started.IsZero() || exit.StartedAt.Before(next.Past.Started) {
			next.Past.Started = exit.StartedAt
		}
		if err := next.Write(w.node.config.podsDir()); err != nil {
			w.log.Warn("removing an old attempt", "error", err)
			return
		}
		*w.record = next
		u.kept = u.kept[1:]
		if err := p.Remove(); err != nil {
			w.log.Warn("removing an old attempt", "error", err)
		}
	}
}

// lastWords reads the end of a container's output, as the message of one that
// failed without leaving any.
func (w *worker) lastWords(p *process.Process) string {
	const lines, most = 80, 2048
	r, err := p.Logs(w.ctx, process.LogQuery{Tail: lines})
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-most):])
}
