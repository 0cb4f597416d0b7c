package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// Volume is one volume of a pod as it lies on this machine.
type Volume struct {
	// Path is its folder, or its file for some host paths.
	Path string
	// ReadOnly is true where containers must not write.
	ReadOnly bool
	// Environment is true for a Python environment.
	Environment bool
	// Owner works with the files of the user whose folder it is. Nil: it is Muster's own.
	Owner *userfiles.Files
	// Own is true for a folder of the pod, or a checkout that only members of its
	// job have: in the plain tier other volumes may be mounted in it.
	Own bool
}

// Objects reads what volumes are made of. Errors for what is not there satisfy
// apierrors.IsNotFound.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Claim returns a claim and the volume it is bound to, nil if it is not.
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error)
	// Token asks for a service account token bound to the pod.
	Token(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (token string, expires time.Time, err error)
}

// Environments knows the folders of prepared environments by content key. The namespace
// is the pod's.
type Environments interface {
	Path(namespace, key string) (string, error)
	// Bench is the folder in which somebody builds one, by the name of who does.
	Bench(namespace, key, who string) (string, error)
}

// Code makes writable copies of code snapshots that are stored for the pod's namespace.
type Code interface {
	Checkout(ctx context.Context, namespace, digest, dir string) error
}

// Data knows where parts of commits are on this machine.
type Data interface {
	// Folder is where the part of a commit at a path is; key is its name in the
	// machine's cache. What is not there any more is fetched first. The commit is one
	// of the pod's namespace.
	Folder(ctx context.Context, namespace, key, commit, path string) (string, error)
}

// Mounts shows parts of commits without fetching them.
type Mounts interface {
	// Mount has the part of a commit at a path be shown in a folder, for a pod, until
	// that is forgotten. The commit is one of the pod's namespace.
	Mount(ctx context.Context, namespace string, pod types.UID, commit, path string) (string, error)
	// Forget takes away what is mounted for a pod and for no other.
	Forget(pod types.UID) error
}

// Stages lets pods of stages reach the foreman.
type Stages interface {
	// Post makes the folder by which a volume of a pod reaches a work, for the owner of the pod's namespace,
	// and returns it.
	Post(ctx context.Context, pod *corev1.Pod, volume, work string, user userfiles.User) (folder string, err error)
	// Forget removes the folders of a pod.
	Forget(pod types.UID) error
}

// Config is what a Manager needs.
type Config struct {
	// PodsDir holds one folder a pod, named by its UID.
	PodsDir string
	// JobsDir holds what members of a job share, by the job's UID.
	JobsDir string
	// VolumesDir holds the folders that Muster made for claims: where a volume's
	// object names another home's it is looked for here. Empty: there are none.
	VolumesDir string
	// Owner returns the folder of the user whose files the pods of a namespace work with. Nil: Muster has
	// one user, and the files are Muster's own.
	Owner func(ctx context.Context, namespace string) (*userfiles.Home, error)
	// MemoryDir has the mount points of file systems in memory that belong to Owner.
	MemoryDir string
	// Objects reads the API.
	Objects Objects
	// Environments serves environment volumes; nil: there are none.
	Environments Environments
	// Code serves code volumes; nil: there are none.
	Code Code
	// Data serves data volumes; nil: there are none.
	Data Data
	// Mounts serves data volumes that are read as they are asked for; nil: none are.
	Mounts Mounts
	// Stages serves stage volumes, on a machine that several users share; nil: there are none.
	Stages Stages
	// Allocatable is what limits that are not set count as.
	Allocatable corev1.ResourceList
	// Now is the clock.
	Now func() time.Time
}

// Manager prepares volumes. Its methods may be called concurrently for
// different pods.
type Manager struct {
	config Config

	mu        sync.Mutex
	tokens    map[tokenKey]heldToken
	checkouts map[string]chan struct{}
}

// New returns a Manager.
func New(config Config) *Manager {
	return &Manager{config: config, tokens: map[tokenKey]heldToken{}, checkouts: map[string]chan struct{}{}}
}

// Prepare makes every volume of a pod exist and returns them by name. An error
// joins what is missing; what could be prepared is.
func (m *Manager) Prepare(ctx context.Context, pod *corev1.Pod) (map[string]Volume, error) {
	var errs []error
	volumes := map[string]Volume{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		prepared, err := m.prepare(ctx, pod, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("preparing volume %q: %w", v.Name, err))
			continue
		}
		volumes[v.Name] = prepared
	}
	return volumes, errors.Join(errs...)
}

// Changing is true for a pod with volumes whose content may change while the
// pod runs, or whose server may have died, so that Prepare must be repeated now
// and then.
func Changing(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || lazy(v.CSI) {
			return true
		}
	}
	return false
}

func (m *Manager) prepare(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (Volume, error) {
	if home, err := m.home(ctx, pod.Namespace); err != nil {
		return Volume{}, err
	} else if home != nil {
		return m.prepareOwned(ctx, home, pod, v)
	}
	folder := filepath.Join(m.config.PodsDir, string(pod.UID), "volumes", v.Name)
	switch {
	case v.EmptyDir != nil:
		return emptyDir(folder, v.EmptyDir)
	case v.HostPath != nil:
		return hostPath(v.HostPath)
	case v.PersistentVolumeClaim != nil:
		return m.claim(ctx, pod.Namespace, v.PersistentVolumeClaim, hostPath)
	case v.CSI != nil:
		return m.csi(ctx, pod, folder, v.CSI)
	}
	files, err := m.payload(ctx, pod, v)
	if err != nil {
		return Volume{}, err
	}
	return Volume{Path: folder, ReadOnly: true}, files.Put(folder)
}

// Forget drops what is kept in memory for a pod, and unmounts what was mounted
// for it, so that its folder can be removed.
func (m *Manager) Forget(uid types.UID) error {
	m.mu.Lock()
	for key := range m.tokens {
		if key.pod == uid {
			delete(m.tokens, key)
		}
	}
	m.mu.Unlock()
	if m.config.Mounts != nil {
		if err := m.config.Mounts.Forget(uid); err != nil {
			return err
		}
	}
	if m.config.Stages != nil {
		if err := m.config.Stages.Forget(uid); err != nil {
			return err
		}
	}
	if m.config.MemoryDir == "" {
		return unmountAll(filepath.Join(m.config.PodsDir, string(uid), "volumes"))
	}
	folder := filepath.Join(m.config.MemoryDir, string(uid))
	if err := unmountAll(folder); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// unmountAll takes away what memory mounted over folders in a folder.
func unmountAll(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pod's volumes: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, unmount(filepath.Join(folder, entry.Name())))
	}
	return errors.Join(errs...)
}

// lookup reads a pod's ConfigMaps and Secrets.
type lookup struct {
	ctx       context.Context
	objects   Objects
	namespace string
}

// Lookup returns what expansion needs to read the objects of a namespace.
func Lookup(ctx context.Context, objects Objects, namespace string) expansion.Lookup {
	return lookup{ctx: ctx, objects: objects, namespace: namespace}
}

// ConfigMap reads a ConfigMap.
func (l lookup) ConfigMap(name string) (*corev1.ConfigMap, error) {
	return l.objects.ConfigMap(l.ctx, l.namespace, name)
}

// Secret reads a Secret.
func (l lookup) Secret(name string) (*corev1.Secret, error) {
	return l.objects.Secret(l.ctx, l.namespace, name)
}
