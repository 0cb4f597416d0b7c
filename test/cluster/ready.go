package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lookAgain is how often something is looked at that cannot tell by itself
// that it is ready.
const lookAgain = 50 * time.Millisecond

// await calls check until it returns nil. It gives up when ctx ends or one of
// the programs that it depends on has, and then shows their logs.
func (c *Cluster) await(ctx context.Context, what string, check func(context.Context) error, depends ...string) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		for _, name := range depends {
			if !c.Runs(name) {
				return fmt.Errorf("waiting for %s: %s has ended: %w\n%s", what, name, err, c.tails(depends))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w\n%s", what, ctx.Err(), err, c.tails(depends))
		case <-time.After(lookAgain):
		}
	}
}

// Tails are the ends of the logs of all programs, for when a test fails.
func (c *Cluster) Tails() string { return c.tails(c.Programs()) }

func (c *Cluster) tails(names []string) string {
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "--- %s\n%s\n", name, tail(c.LogFile(name)))
	}
	return all.String()
}

// Runs tells whether a program runs.
func (c *Cluster) Runs(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.programs[name]
	return ok && known.on.program(name) != nil
}

// Programs are the names of all that were started, in order.
func (c *Cluster) Programs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.programs))
}

func (c *Cluster) lookUp(name string) (program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.programs[name]
	if !ok {
		return program{}, fmt.Errorf("no program is named %q here: there are %s", name, strings.Join(slices.Sorted(maps.Keys(c.programs)), ", "))
	}
	return known, nil
}

// Kill ends a program with SIGKILL and waits until it is gone. What it started
// runs on: containers when containerd or the kubelet are killed.
func (c *Cluster) Kill(ctx context.Context, name string) error {
	known, err := c.lookUp(name)
	if err != nil {
		return err
	}
	return known.on.end(ctx, name, syscall.SIGKILL)
}

// Signal sends a program a signal, for example SIGSTOP and SIGCONT.
func (c *Cluster) Signal(name string, signal syscall.Signal) error {
	known, err := c.lookUp(name)
	if err != nil {
		return err
	}
	return known.on.signal(name, signal)
}

// Restart starts a program again as it was started, after killing it if it
// runs. It waits until etcd, the API server, containerd and kubelets answer; a
// kubelet only starts where containerd runs, and nobody starts it again. What
// nodes say of themselves takes longer: see [Cluster.Ready].
func (c *Cluster) Restart(ctx context.Context, name string) error {
	known, err := c.lookUp(name)
	if err != nil {
		return err
	}
	if err := known.on.end(ctx, name, syscall.SIGKILL); err != nil {
		return err
	}
	if err := known.on.start(known.run); err != nil {
		return err
	}
	node, short, onNode := strings.Cut(name, "/")
	switch {
	case name == apiServer, name == etcd && c.Runs(apiServer):
		return c.await(ctx, "the API server to be ready again", c.apiReady, etcd, apiServer)
	case onNode && short == containerd:
		return c.await(ctx, name+" to answer again", c.Node(node).runtimeAnswers, name)
	case onNode && short == kubelet:
		return c.await(ctx, name+" to answer again", c.Node(node).kubeletAnswers, name)
	}
	return nil
}

func (c *Cluster) apiReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// awaitAll waits until everything that was started can be used.
func (c *Cluster) awaitAll(ctx context.Context) error {
	if c.options.WithoutControllers {
		return c.Ready(ctx)
	}
	// Without it pods are refused.
	account := func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
	if err := c.await(ctx, "the service account of the namespace default", account, apiServer, controllers); err != nil {
		return err
	}
	return c.Ready(ctx)
}

// Ready waits until every node is ready and offers its GPUs.
func (c *Cluster) Ready(ctx context.Context) error {
	for _, node := range c.Nodes {
		depends := []string{node.Name + "/" + kubelet, node.Name + "/" + containerd}
		if err := c.await(ctx, "the node "+node.Name+" to be ready", node.ready, depends...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) ready(ctx context.Context) error {
	node, err := n.cluster.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	condition := corev1.NodeCondition{Message: "it has no condition yet"}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			condition = c
		}
	}
	if condition.Status != corev1.ConditionTrue {
		return errors.New(condition.Message)
	}
	if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() < int64(n.GPUs) {
		return fmt.Errorf("it offers %s of %d GPUs", gpus.String(), n.GPUs)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady && !n.cluster.options.WithoutControllers {
			return errors.New("its taint not-ready is still there")
		}
	}
	return nil
}
