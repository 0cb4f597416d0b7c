package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Runtime is a containerd on this machine itself, without any Kubernetes, with
// folders and a socket of its own.
type Runtime struct {
	// Socket is where it listens.
	Socket string

	bin, folder string
	process     *exec.Cmd
	ended       chan struct{} // closed when the process has ended
}

// loneConfig is of a containerd that keeps to its folder and runs nothing.
const loneConfig = `version = 3
root = %[1]q
state = %[2]q
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri"]
[grpc]
  address = %[3]q
[plugins.'io.containerd.internal.v1.opt']
  path = %[4]q
`

// StartRuntime starts a containerd and waits until it answers. It needs root.
func StartRuntime(ctx context.Context) (*Runtime, error) {
	bin, err := programs(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "muster-containerd-")
	if err != nil {
		return nil, fmt.Errorf("making containerd's folder: %w", err)
	}
	r := &Runtime{Socket: filepath.Join(folder, "socket"), bin: bin, folder: folder}
	config := fmt.Sprintf(loneConfig, r.path("root"), r.path("state"), r.Socket, r.path("opt"))
	if err := os.WriteFile(r.path("config.toml"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configuring containerd: %w", err)
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Remove())
	}
	return r, nil
}

func (r *Runtime) path(name string) string { return filepath.Join(r.folder, name) }

// Start starts it again after Kill, and waits until it answers.
func (r *Runtime) Start(ctx context.Context) error {
	log, err := os.OpenFile(r.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening containerd's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	// Not a command with a context: it ends by Kill, or with the tests.
	r.process = &exec.Cmd{
		Path: r.bin + "/" + containerd, Args: []string{containerd, "--config", r.path("config.toml")},
		Env: []string{"PATH=" + searchPath(r.bin)}, Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	if err := r.process.Start(); err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	ended := make(chan struct{})
	r.ended = ended
	go func() {
		defer close(ended)
		_ = r.process.Wait()
	}()
	for {
		err := dial(ctx, "unix", r.Socket)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("containerd has ended:\n%s", tail(r.path("log")))
		case <-ctx.Done():
			return fmt.Errorf("waiting for containerd: %w: %w\n%s", ctx.Err(), err, tail(r.path("log")))
		case <-time.After(lookAgain):
		}
	}
}

// Kill ends it at once. What it keeps stays.
func (r *Runtime) Kill() {
	_ = r.process.Process.Kill()
	<-r.ended
	_ = os.Remove(r.Socket)
}

// Stop ends it and removes what it kept.
func (r *Runtime) Stop() error {
	r.Kill()
	return r.Remove()
}

// Remove removes what it kept.
func (r *Runtime) Remove() error { return os.RemoveAll(r.folder) }

// Import makes an image known in one of its namespaces.
func (r *Runtime) Import(ctx context.Context, namespace string, image Image) error {
	path, err := image.cached(filepath.Join(filepath.Dir(r.bin), "images"))
	if err != nil {
		return err
	}
	_, err = r.Ctr(ctx, "--namespace", namespace, "images", "import", "--local", "--no-unpack", path)
	return err
}

// Ctr runs containerd's own client and returns its output, without warnings.
func (r *Runtime) Ctr(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.bin+"/ctr", append([]string{"--address", r.Socket}, args...)...)
	var warnings bytes.Buffer
	cmd.Stderr = &warnings
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w\n%s%s", strings.Join(args, " "), err, output, &warnings)
	}
	return string(output), nil
}
