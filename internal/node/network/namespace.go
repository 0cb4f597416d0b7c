package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespace is a handle on a network namespace: an open file that keeps it
// alive, and a socket that speaks to its interfaces.
type namespace struct {
	file   *os.File
	handle *netlink.Handle
}

// currentNamespace opens the namespace of the calling thread.
func currentNamespace() (*namespace, error) {
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace: %w", err)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a netlink socket: %w", err), file.Close())
	}
	return &namespace{file: file, handle: handle}, nil
}

func (ns *namespace) fd() int { return int(ns.file.Fd()) }

func (ns *namespace) close() error {
	ns.handle.Close()
	return ns.file.Close()
}

// inNewNamespace runs f on a thread in a new network namespace, and returns
// when f has. Inside, /proc/sys/net and new sockets belong to the namespace.
// It ends with f, unless f keeps it (see keep).
func inNewNamespace(f func(ns *namespace) error) error {
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		ns, err := currentNamespace()
		if err != nil {
			return err
		}
		return errors.Join(f(ns), ns.close())
	})
}

// inNamespace runs f on a thread in the network namespace at path.
func inNamespace(path string, f func(ns *namespace) error) error {
	return onOwnThread(func() error {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("opening the network namespace: %w", err)
		}
		if err := errors.Join(unix.Setns(int(file.Fd()), unix.CLONE_NEWNET), file.Close()); err != nil {
			return fmt.Errorf("entering the network namespace %s: %w", path, err)
		}
		ns, err := currentNamespace()
		if err != nil {
			return err
		}
		return errors.Join(f(ns), ns.close())
	})
}

// onOwnThread runs f on a thread of its own that f may move to other network
// namespaces, and brings the thread back.
func onOwnThread(f func() error) error {
	done := make(chan error)
	go func() {
		// The thread is brought home rather than left to end with its
		// goroutine: it may be the main thread, which cannot end, and whose
		// namespace is the one seen as the whole process's.
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("opening the network namespace: %w", err)
			return
		}
		err = f()
		back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
		if back == nil {
			runtime.UnlockOSThread()
		}
		done <- errors.Join(err, back, home.Close())
	}()
	return <-done
}

// keep makes the namespace outlive this process: a mount on a file at path.
func (ns *namespace) keep(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("keeping the network namespace: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("keeping the network namespace: %w", err)
	}
	source := fmt.Sprintf("/proc/thread-self/fd/%d", ns.fd())
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mounting the network namespace on %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// isNamespace says whether a namespace is mounted on the file at path.
func isNamespace(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// forgetNamespace undoes keep. It is no error if there is nothing to undo.
func forgetNamespace(path string) error {
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting the network namespace %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the network namespace: %w", err)
	}
	return nil
}
