package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// On a machine that several users share, pods of a namespace work with the files of its owner. The
// functions below touch no path that the owner controls but by a process that is the owner.

// home returns the folder of a namespace's owner; nil: this Muster has one user.
func (m *Manager) home(ctx context.Context, namespace string) (*userfiles.Home, error) {
	if m.config.Owner == nil {
		return nil, nil
	}
	home, err := m.config.Owner(ctx, namespace)
	if err == nil && home == nil {
		err = fmt.Errorf("namespace %s belongs to no user, whose files its pods could use", namespace)
	}
	return home, err
}

// folderIn is the place of a pod in its owner's home.
func folderIn(home *userfiles.Home, pod *corev1.Pod) userfiles.Place {
	return home.Place("pods", string(pod.UID))
}

// prepareOwned is prepare for the owner of the pod's namespace.
func (m *Manager) prepareOwned(ctx context.Context, home *userfiles.Home, pod *corev1.Pod, v *corev1.Volume) (Volume, error) {
	place := folderIn(home, pod).Join("volumes", v.Name)
	switch {
	case v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory:
		return m.ownMemory(home, pod, v)
	case v.EmptyDir != nil:
		return Volume{Path: place.String(), Own: true, Owner: home.Files}, home.MakeAll(ctx, place, 0o700)
	case v.HostPath != nil:
		return hostPathOf(ctx, home.Files, v.HostPath)
	case v.PersistentVolumeClaim != nil:
		return m.claim(ctx, pod.Namespace, v.PersistentVolumeClaim, func(source *corev1.HostPathVolumeSource) (Volume, error) {
			return hostPathOf(ctx, home.Files, source)
		})
	case v.CSI != nil && v.CSI.Driver == v1alpha1.CodeDriver:
		attributes := v.CSI.VolumeAttributes
		return m.ownCode(ctx, home, pod.Namespace, place, attributes["snapshot"], attributes["job"])
	case v.CSI != nil && v.CSI.Driver == v1alpha1.EnvironmentDriver:
		return m.ownEnvironment(ctx, home.Files, pod, v.CSI.VolumeAttributes)
	case v.CSI != nil && v.CSI.Driver == v1alpha1.StageDriver:
		if m.config.Stages == nil {
			return Volume{}, errors.New("this node serves no stages of pipelines")
		}
		folder, err := m.config.Stages.Post(ctx, pod, v.Name, v.CSI.VolumeAttributes["work"], home.User())
		return Volume{Path: folder, ReadOnly: true, Owner: home.Files}, err
	case v.CSI != nil:
		return m.csi(ctx, pod, "", v.CSI)
	}
	files, err := m.payload(ctx, pod, v)
	if err != nil {
		return Volume{}, err
	}
	return Volume{Path: place.String(), ReadOnly: true, Owner: home.Files}, home.Put(ctx, place, files)
}

// ownEnvironment is environment with the rights of a user. The key of an environment that Muster did not make
// stands for a path, which another user may have named.
func (m *Manager) ownEnvironment(ctx context.Context, files *userfiles.Files, pod *corev1.Pod, attributes map[string]string) (Volume, error) {
	if attributes["build"] == "true" {
		return Volume{}, errors.New("environments for images are not built where several users share one Muster")
	}
	path := attributes["path"]
	if key := attributes["key"]; key != "" {
		if m.config.Environments == nil {
			return Volume{}, errors.New("this node serves no environments")
		}
		var err error
		if path, err = m.config.Environments.Path(pod.Namespace, key); err != nil {
			return Volume{}, fmt.Errorf("finding environment %s: %w", key, err)
		}
	}
	kind := corev1.HostPathDirectory
	v, err := hostPathOf(ctx, files, &corev1.HostPathVolumeSource{Path: path, Type: &kind})
	v.ReadOnly, v.Environment = true, true
	return v, err
}

// ownMemory mounts a file system in memory in a folder of root's: its owner cannot make the path of a mount
// lead elsewhere.
func (m *Manager) ownMemory(home *userfiles.Home, pod *corev1.Pod, v *corev1.Volume) (Volume, error) {
	var bytes int64
	if limit := v.EmptyDir.SizeLimit; limit != nil {
		bytes = limit.Value()
	}
	folder := filepath.Join(m.config.MemoryDir, string(pod.UID), v.Name)
	return Volume{Path: folder, Own: true, Owner: home.Files}, userfiles.Memory(folder, home.User(), bytes)
}

// hostPathOf is hostPath with the rights of a user.
func hostPathOf(ctx context.Context, files *userfiles.Files, source *corev1.HostPathVolumeSource) (Volume, error) {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	place := userfiles.Place{Base: source.Path}
	flags := unix.O_PATH
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		if err := files.MakeAll(ctx, place, 0o755); err != nil {
			return Volume{}, err
		}
	case corev1.HostPathFileOrCreate:
		flags = unix.O_CREAT | unix.O_RDONLY
	}
	file, info, err := files.Open(ctx, place, flags, 0o644)
	if err != nil {
		return Volume{}, err
	}
	if err := file.Close(); err != nil {
		return Volume{}, err
	}
	if want, ok := hostPathTypes[kind]; ok && !want(info.Mode) {
		return Volume{}, fmt.Errorf("%s is not of the type %s", source.Path, kind)
	}
	return Volume{Path: source.Path, Owner: files}, nil
}

// ownCode checks a snapshot out into a folder of root's, which its owner cannot see, and makes a copy as the
// owner, once for all members of a job.
func (m *Manager) ownCode(ctx context.Context, home *userfiles.Home, namespace string, place userfiles.Place, digest, job string) (_ Volume, err error) {
	if m.config.Code == nil {
		return Volume{}, errors.New("this node serves no code")
	}
	if job != "" {
		place = home.Place("jobs", job, "code", strings.ReplaceAll(digest, ":", "-"))
		if err := m.noteJob(job, home.User().UID); err != nil {
			return Volume{}, err
		}
	}
	done, err := m.lockCheckout(ctx, place.String())
	if err != nil {
		return Volume{}, err
	}
	defer done()
	v := Volume{Path: place.String(), Own: true, Owner: home.Files}
	if _, err := home.Stat(ctx, place); !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if err := os.MkdirAll(m.config.JobsDir, 0o700); err != nil {
		return Volume{}, err
	}
	private, err := os.MkdirTemp(m.config.JobsDir, ".checkout-*") // of mode 0700
	if err != nil {
		return Volume{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	tree := filepath.Join(private, "tree")
	if err := m.config.Code.Checkout(ctx, namespace, digest, tree); err != nil {
		return Volume{}, fmt.Errorf("checking out code %s: %w", digest, err)
	}
	if err := give(tree, home.User()); err != nil {
		return Volume{}, err
	}
	from, err := os.Open(tree)
	if err != nil {
		return Volume{}, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return v, home.Copy(ctx, from, place)
}

// give makes a user the owner of all files of a folder that only root enters, so that the user can read
// those that only their owner may read.
func give(folder string, user userfiles.User) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, int(user.UID), int(user.GID))
	})
	return errors.Join(err, root.Close())
}

// noteJob makes the folder by which the node finds the files of a job that is gone, and who owns them.
func (m *Manager) noteJob(job string, uid uint32) error {
	folder := filepath.Join(m.config.JobsDir, job)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, OwnerFile), fmt.Append(nil, uid), 0o600)
}

// OwnerFile has the number of the user whose home has the folder of a job, in the folder of the job that is
// root's.
const OwnerFile = "owner"

// point makes the folder or file in the pod's own folders over which a container's file system mounts a
// volume: the shim makes nothing in folders of users.
func (r *Request) point(ctx context.Context, view *View, v Volume, source, target string) error {
	if r.Owner == nil {
		return nil
	}
	isDir, err := isFolder(ctx, v, source)
	if err != nil {
		return err
	}
	return view.MakePoint(ctx, target, isDir)
}

// MakePoint makes the folder or file at which something is mounted, where it is in a folder of the user who
// owns the pod's folders. Without such a user it does nothing.
func (v *View) MakePoint(ctx context.Context, target string, isDir bool) error {
	if v.owner == nil || target == v.Root || !admission.Below(target, v.Root) {
		return nil
	}
	base, rel, own := within(v.points, v.Root, v.real, target)
	if !own {
		return nil
	}
	place := userfiles.Place{Base: base, Below: rel}
	if isDir {
		return v.owner.MakeAll(ctx, place, 0o700)
	}
	if above := path.Dir(rel); above != "." {
		if err := v.owner.MakeAll(ctx, userfiles.Place{Base: base, Below: above}, 0o700); err != nil {
			return err
		}
	}
	file, _, err := v.owner.Open(ctx, place, unix.O_CREAT|unix.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func isFolder(ctx context.Context, v Volume, source string) (bool, error) {
	if v.Owner != nil {
		info, err := v.Owner.Stat(ctx, userfiles.Place{Base: source})
		return info.Mode.IsDir(), err
	}
	info, err := os.Stat(source)
	return err == nil && info.IsDir(), err
}
