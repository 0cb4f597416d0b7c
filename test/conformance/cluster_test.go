//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

func init() { platforms["cluster"] = kubernetes }

// kubernetes starts a real one with two nodes of two pretended GPUs each,
// beside one without, and Muster on it.
func kubernetes(ctx context.Context) (*platform, error) {
	shell, err := cluster.Shell(ctx)
	if err != nil {
		return nil, err
	}
	images := []cluster.Image{shell}
	const product = "NVIDIA-A100-SXM4-80GB"
	started, err := cluster.Start(ctx, cluster.Options{Scheduler: true, Nodes: []cluster.NodeOptions{
		{Name: "gpu-1", GPUs: 2, Product: product, Images: images}, {Name: "gpu-2", GPUs: 2, Product: product, Images: images}, {Name: "cpu-1", Images: images},
	}})
	if err != nil {
		return nil, err
	}
	p := &platform{kubeconfig: started.Kubeconfig(), image: cluster.ShellImage, absent: "muster.test/absent:1", model: "A100"}
	stop, err := p.serve(ctx, "gpu-1", "gpu-2")
	p.stop = func(context.Context) error { return errors.Join(stop(), started.Stop()) }
	if err == nil {
		err = p.connect()
	}
	if err != nil {
		return nil, errors.Join(err, p.stop(ctx))
	}
	return p, nil
}

// serve installs Muster's kinds and rules, gives it nodes, and runs its manager
// beside the cluster.
func (p *platform) serve(ctx context.Context, nodes ...string) (stop func() error, err error) {
	stop = func() error { return nil }
	for _, args := range [][]string{{"install", "--manager=false"}, append([]string{"node", "add"}, nodes...)} {
		cmd := exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
		if r := harness.Finish(cmd); r.Code != 0 {
			return stop, fmt.Errorf("muster %s: %s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
		}
	}
	log, err := os.CreateTemp("", "muster-conformance-serve-")
	if err != nil {
		return stop, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(harness.Binary(), "serve", "--kubeconfig", p.kubeconfig, "--health", "0", "--metrics", "0") //nolint:noctx // it runs until it is stopped
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return stop, fmt.Errorf("starting muster serve: %w", err)
	}
	return func() error { return end(cmd, log.Name()) }, nil
}

// end stops a manager in an orderly way; its log is shown if that fails.
func end(cmd *exec.Cmd, log string) error {
	kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping muster serve: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		said, _ := os.ReadFile(filepath.Clean(log))
		return fmt.Errorf("muster serve ended: %w\n%s", err, said)
	}
	return os.Remove(log)
}
