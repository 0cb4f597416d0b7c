package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// emptyDir makes the pod's own folder, in memory if it asks for that.
func emptyDir(folder string, source *corev1.EmptyDirVolumeSource) (Volume, error) {
	mode := os.FileMode(0o777)
	if source.Mode != nil {
		mode = os.FileMode(*source.Mode) & os.ModePerm
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return Volume{}, err
	}
	if source.Medium == corev1.StorageMediumMemory {
		if err := memory(folder, source); err != nil {
			return Volume{}, err
		}
	}
	// MkdirAll is subject to the umask; any user of the pod may write.
	return Volume{Path: folder, Own: true}, os.Chmod(folder, mode)
}

// memory mounts a file system in memory over the folder, once.
func memory(folder string, source *corev1.EmptyDirVolumeSource) error {
	if mounted(folder) {
		return nil
	}
	options := "mode=0777"
	if source.SizeLimit != nil && !source.SizeLimit.IsZero() {
		options += fmt.Sprintf(",size=%d", source.SizeLimit.Value())
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting a file system in memory: %w", err)
	}
	return nil
}

// mounted is true for a folder that is on another device than its parent.
func mounted(folder string) bool {
	var own, parent unix.Stat_t
	if unix.Stat(folder, &own) != nil || unix.Stat(filepath.Dir(folder), &parent) != nil {
		return false
	}
	return own.Dev != parent.Dev
}

// unmount takes away what memory mounted over the folder, if anything. A link,
// and what is not there, is no mount of ours.
func unmount(folder string) error {
	var own unix.Stat_t
	if err := unix.Lstat(folder, &own); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", folder, err)
	}
	if own.Mode&unix.S_IFMT != unix.S_IFDIR || !mounted(folder) {
		return nil
	}
	if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting %s: %w", folder, err)
	}
	return nil
}

// hostPath checks, and for some types creates, a path of the machine.
func hostPath(source *corev1.HostPathVolumeSource) (Volume, error) {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	path := source.Path
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return Volume{}, err
		}
	case corev1.HostPathFileOrCreate:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK, 0o644) // a pipe is not waited for
		if err != nil {
			return Volume{}, err
		}
		if err := f.Close(); err != nil {
			return Volume{}, err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return Volume{}, err
	}
	if want, ok := hostPathTypes[kind]; ok && !want(info.Mode()) {
		return Volume{}, fmt.Errorf("%s is not of the type %s", path, kind)
	}
	return Volume{Path: path}, nil
}

var hostPathTypes = map[corev1.HostPathType]func(os.FileMode) bool{
	corev1.HostPathDirectory:         os.FileMode.IsDir,
	corev1.HostPathDirectoryOrCreate: os.FileMode.IsDir,
	corev1.HostPathFile:              os.FileMode.IsRegular,
	corev1.HostPathFileOrCreate:      os.FileMode.IsRegular,
	corev1.HostPathSocket:            func(m os.FileMode) bool { return m&os.ModeSocket != 0 },
	corev1.HostPathCharDev:           func(m os.FileMode) bool { return m&os.ModeCharDevice != 0 },
	corev1.HostPathBlockDev: func(m os.FileMode) bool {
		return m&os.ModeDevice != 0 && m&os.ModeCharDevice == 0
	},
}

// atHome is where a volume's folder is. One that Muster made for a claim has its
// place in this home, whatever home it was made in: that may have been moved, or
// be a backup that was restored elsewhere.
func (m *Manager) atHome(pv *corev1.PersistentVolume) *corev1.HostPathVolumeSource {
	source, claim := pv.Spec.HostPath, pv.Spec.ClaimRef
	namespace, name := filepath.Base(filepath.Dir(source.Path)), filepath.Base(source.Path)
	if m.config.VolumesDir == "" || pv.Annotations["pv.kubernetes.io/provisioned-by"] != "muster.dev/local" ||
		claim == nil || claim.Namespace != namespace || !strings.HasSuffix(name, "-"+string(claim.UID)) {
		return source
	}
	moved := *source
	moved.Path = filepath.Join(m.config.VolumesDir, namespace, name)
	return &moved
}

// claim finds the folder behind a claim, which must be bound, or have a volume
// that names it as its claim. Check checks and makes the path behind it.
func (m *Manager) claim(
	ctx context.Context, namespace string, source *corev1.PersistentVolumeClaimVolumeSource, check func(*corev1.HostPathVolumeSource) (Volume, error),
) (Volume, error) {
	claim, pv, err := m.config.Objects.Claim(ctx, namespace, source.ClaimName)
	if err != nil {
		return Volume{}, fmt.Errorf("reading claim %q: %w", source.ClaimName, err)
	}
	if claim.DeletionTimestamp != nil {
		return Volume{}, fmt.Errorf("the claim %q is being deleted", source.ClaimName)
	}
	promised := pv != nil && pv.Spec.ClaimRef != nil && claim.UID != "" && pv.Spec.ClaimRef.UID == claim.UID
	if pv == nil || claim.Status.Phase != corev1.ClaimBound && !promised {
		return Volume{}, fmt.Errorf("waiting for the claim %q to be bound to a volume", source.ClaimName)
	}
	var v Volume
	switch {
	case pv.Spec.HostPath != nil:
		v, err = check(m.atHome(pv))
	case pv.Spec.Local != nil:
		v, err = check(&corev1.HostPathVolumeSource{Path: pv.Spec.Local.Path})
	default:
		return Volume{}, fmt.Errorf("the volume %q behind the claim %q is neither hostPath nor local, the two kinds this node implements", pv.Name, source.ClaimName)
	}
	v.ReadOnly = source.ReadOnly
	return v, err
}

// csi serves the node's own drivers.
func (m *Manager) csi(ctx context.Context, pod *corev1.Pod, folder string, source *corev1.CSIVolumeSource) (Volume, error) {
	attributes := source.VolumeAttributes
	switch source.Driver {
	case v1alpha1.CodeDriver:
		return m.code(ctx, pod.Namespace, folder, attributes["snapshot"], attributes["job"])
	case v1alpha1.EnvironmentDriver:
		return m.environment(pod, attributes)
	}
	if source.Driver == v1alpha1.DataDriver {
		return m.data(ctx, pod, attributes)
	}
	return Volume{}, fmt.Errorf("the driver %q is not one of this node's", source.Driver)
}

// environment finds the environment that a pod uses, or the folder in which it builds
// one.
func (m *Manager) environment(pod *corev1.Pod, attributes map[string]string) (Volume, error) {
	key, path, build := attributes["key"], attributes["path"], attributes["build"] == "true"
	if (key != "" || build) && m.config.Environments == nil {
		return Volume{}, errors.New("this node serves no environments")
	}
	if build {
		bench, err := m.config.Environments.Bench(pod.Namespace, key, string(pod.UID))
		if err != nil {
			return Volume{}, err
		}
		return Volume{Path: bench}, nil
	}
	if key != "" {
		var err error
		if path, err = m.config.Environments.Path(pod.Namespace, key); err != nil {
			return Volume{}, fmt.Errorf("finding environment %s: %w", key, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return Volume{}, err
	}
	if !info.IsDir() {
		return Volume{}, fmt.Errorf("the environment %s is not a folder", path)
	}
	return Volume{Path: path, ReadOnly: true, Environment: true}, nil
}

// lazily is the value of the attribute lazy of data that is mounted.
const lazily = "true"

// lazy is true for data that is read as it is asked for.
func lazy(source *corev1.CSIVolumeSource) bool {
	return source != nil && source.Driver == v1alpha1.DataDriver && source.VolumeAttributes["lazy"] == lazily
}

// data finds what a pod reads.
func (m *Manager) data(ctx context.Context, pod *corev1.Pod, attributes map[string]string) (Volume, error) {
	if attributes["lazy"] == lazily {
		if m.config.Mounts == nil {
			return Volume{}, errors.New("this node mounts no data")
		}
		folder, err := m.config.Mounts.Mount(ctx, pod.Namespace, pod.UID, attributes["commit"], attributes["path"])
		return Volume{Path: folder, ReadOnly: true}, err
	}
	if m.config.Data == nil {
		return Volume{}, errors.New("this node serves no data")
	}
	folder, err := m.config.Data.Folder(ctx, pod.Namespace, attributes["key"], attributes["commit"], attributes["path"])
	return Volume{Path: folder, ReadOnly: true}, err
}

// code checks a snapshot out, once for all members of a job.
func (m *Manager) code(ctx context.Context, namespace, folder, digest, job string) (Volume, error) {
	if m.config.Code == nil {
		return Volume{}, errors.New("this node serves no code")
	}
	if job != "" {
		folder = filepath.Join(m.config.JobsDir, job, "code", strings.ReplaceAll(digest, ":", "-"))
	}
	done, err := m.lockCheckout(ctx, folder)
	if err != nil {
		return Volume{}, err
	}
	defer done()
	if _, err := os.Stat(folder); err == nil {
		return Volume{Path: folder, Own: true}, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return Volume{}, err
	}
	// A checkout that was interrupted leaves only the temporary folder.
	unfinished := folder + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return Volume{}, err
	}
	if err := m.config.Code.Checkout(ctx, namespace, digest, unfinished); err != nil {
		return Volume{}, fmt.Errorf("checking out code %s: %w", digest, err)
	}
	return Volume{Path: folder, Own: true}, os.Rename(unfinished, folder)
}

// lockCheckout lets one caller at a time work on a folder; the others wait and
// find it made.
func (m *Manager) lockCheckout(ctx context.Context, folder string) (release func(), err error) {
	for {
		m.mu.Lock()
		busy, taken := m.checkouts[folder]
		if !taken {
			mine := make(chan struct{})
			m.checkouts[folder] = mine
			m.mu.Unlock()
			return func() {
				m.mu.Lock()
				delete(m.checkouts, folder)
				m.mu.Unlock()
				close(mine)
			}, nil
		}
		m.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
