package scratch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// sharedMemory is in memory, and private to each container with mounts of its own.
	sharedMemory = "/dev/shm"
	// longest is the length, in bytes, of a TMPDIR that leaves room for the sockets of programs:
	// those of Python's multiprocessing need 32 of 107.
	longest = 75
)

// hiding are the machine's temporary folders, and the names of their replacements.
var hiding = []struct{ path, name string }{{"/tmp", "tmp"}, {"/var/tmp", "var-tmp"}}

// Programs are Muster itself, and the environments that images stand for.
func Programs(images configuration.Images) []string {
	var all []string
	if self, err := os.Executable(); err == nil {
		all = append(all, self)
	}
	for _, image := range images {
		if filepath.IsAbs(image.Environment) {
			all = append(all, image.Environment)
		}
	}
	return all
}

// Options configure a Scratch.
type Options struct {
	// DataDir is Muster's data folder.
	DataDir string
	// Programs are other files and folders of the machine that containers use. They stay visible in
	// hidden folders, with the interpreters of Python environments.
	Programs []string
	// Accounts tells which users the machine has. Default: those of its files.
	Accounts Accounts
}

// Scratch makes and removes the folders of containers.
type Scratch struct {
	options  Options
	accounts Accounts

	mu sync.Mutex
	// removing are the pods whose folders are being removed. The channel is closed after that.
	removing map[types.UID]chan struct{}
}

// New returns a Scratch.
func New(o Options) *Scratch {
	s := &Scratch{options: o, accounts: o.Accounts, removing: map[types.UID]chan struct{}{}}
	if s.accounts == nil {
		s.accounts = account.New(account.Options{FilesOnly: true})
	}
	return s
}

// Request asks for the folders of one start of a container.
type Request struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Isolated is true where the container has mounts of its own, and Image where it sees the files
	// of an image and not the machine's.
	Isolated, Image bool
	// OtherUser is true where it runs as another user than Muster.
	OtherUser bool
	// Environment is the Python environment that it runs in; empty: none.
	Environment string
	// Home is the folder of the user whose folders these are. Nil: they are Muster's own.
	Home *userfiles.Home
}

// Folders are those of one start of a container.
type Folders struct {
	// Mounts put them in the place of the machine's.
	Mounts []process.Mount
	// TMPDIR is the variable's value; empty: programs use /tmp.
	TMPDIR string
	// Own are the folders that are the container's own and empty at its start, with colons between
	// them. A worker of a stage empties them between datums.
	Own string
}

// Make makes the folders of a container, which has no processes now.
func (s *Scratch) Make(ctx context.Context, r Request) (Folders, error) {
	var f Folders
	place, err := s.emptied(ctx, r)
	if err != nil {
		return f, fmt.Errorf("removing the temporary folder of the start before: %w", err)
	}
	var own []string
	switch {
	case r.Image:
		for _, h := range hiding {
			own = append(own, h.path)
		}
	case r.Isolated:
		if err := s.hide(ctx, &f, &own, place, r); err != nil {
			return f, err
		}
	case (!r.OtherUser || r.Home != nil) && len(place) <= longest: // another user cannot enter Muster's folder
		if err := r.makeFolder(ctx, place, 0o700); err != nil {
			return f, err
		}
		f.TMPDIR, own = place, []string{place}
	}
	if r.Isolated || r.Image {
		own = slices.DeleteFunc(append(own, sharedMemory), func(dir string) bool { return volumeAt(r.Container, dir) })
	}
	f.Own = strings.Join(own, ":")
	return f, nil
}

// Tell sets the variables that name the folders. A container that sets TMPDIR itself keeps its own.
func (f Folders) Tell(v *expansion.Variables) {
	v.Set(contract.TemporaryVariable, f.Own)
	if f.TMPDIR != "" {
		v.Default("TMPDIR", f.TMPDIR)
	}
}

// hide puts empty folders in the place of the machine's, and shows the files in them that
// containers need.
func (s *Scratch) hide(ctx context.Context, f *Folders, own *[]string, place string, r Request) error {
	var hidden []string
	for _, h := range hiding {
		real, err := filepath.EvalSymlinks(h.path)
		if errors.Is(err, fs.ErrNotExist) || volumeAt(r.Container, h.path) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at the machine's temporary folder: %w", err)
		}
		source := filepath.Join(place, h.name)
		if err := r.makeFolder(ctx, source, 0o777|fs.ModeSticky); err != nil {
			return err
		}
		f.Mounts = append(f.Mounts, process.Mount{Source: source, Target: h.path, AsUser: r.Home != nil})
		hidden, *own = append(hidden, real), append(*own, h.path)
	}
	for _, path := range s.visible(hidden, r.Environment) {
		f.Mounts = append(f.Mounts, process.Mount{Source: path, Target: path})
	}
	return nil
}

// emptied removes the folder of the start before, and returns its path.
func (s *Scratch) emptied(ctx context.Context, r Request) (string, error) {
	name := strconv.Itoa(index(r.Pod, r.Container.Name))
	if r.Home != nil {
		place := s.Place(r.Home, r.Pod.UID).Join(name)
		return place.String(), r.Home.Remove(ctx, place)
	}
	place := filepath.Join(s.Folder(r.Pod.UID), name)
	return place, osfile.RemoveTree(ctx, place)
}

// makeFolder makes an empty folder, of its user alone where there is one.
func (r Request) makeFolder(ctx context.Context, path string, mode fs.FileMode) error {
	if r.Home == nil {
		return makeFolder(path, mode)
	}
	below, err := filepath.Rel(r.Home.Place().Base, path)
	if err == nil {
		err = r.Home.MakeAll(ctx, r.Home.Place(below), 0o700)
	}
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	return nil
}

// makeFolder makes an empty folder. Its name is new: the pod's folder before was removed.
func makeFolder(path string, mode fs.FileMode) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err == nil {
		err = os.Chmod(path, mode) // Mkdir is subject to the umask
	}
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	return nil
}

// Remove removes the folders of all containers of a pod, which has no processes any more.
func (s *Scratch) Remove(ctx context.Context, pod types.UID) error {
	s.mu.Lock()
	other := s.removing[pod]
	if other == nil {
		mine := make(chan struct{})
		s.removing[pod] = mine
		defer func() {
			s.mu.Lock()
			delete(s.removing, pod)
			s.mu.Unlock()
			close(mine)
		}()
	}
	s.mu.Unlock()
	if other != nil {
		select {
		case <-other:
			return s.Remove(ctx, pod) // the other may have failed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := osfile.RemoveTree(ctx, s.Folder(pod)); err != nil {
		return fmt.Errorf("removing the pod's temporary folders: %w", err)
	}
	return nil
}

// Folder is that of a pod.
func (s *Scratch) Folder(pod types.UID) string {
	return filepath.Join(s.options.DataDir, "tmp", Name(pod))
}

// Place is the folder of a pod in a user's home.
func (s *Scratch) Place(home *userfiles.Home, pod types.UID) userfiles.Place {
	return home.Place("tmp", Name(pod))
}

// Name is the name of a pod's folder in tmp.
func Name(pod types.UID) string {
	sum := sha256.Sum256([]byte(pod))
	return hex.EncodeToString(sum[:6])
}

// index is the number of a container in its pod.
func index(pod *corev1.Pod, name string) int {
	return slices.IndexFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool { return c.Name == name })
}

// volumeAt reports whether the container mounts a volume at a folder, or above it.
func volumeAt(ctr *corev1.Container, dir string) bool {
	return slices.ContainsFunc(ctr.VolumeMounts, func(m corev1.VolumeMount) bool { return admission.Below(dir, filepath.Clean(m.MountPath)) })
}
