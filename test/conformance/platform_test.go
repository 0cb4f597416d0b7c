//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// platform is one Muster, wherever it runs. It has four GPUs, all alike, and
// nothing else runs on it.
type platform struct {
	// kubeconfig is what its users have.
	kubeconfig string
	// image has a shell, bash and busybox in it.
	image string
	// python is an image with what the quickstart needs. Where bring is not nil, a test that
	// uses the image calls it first: it imports the image, which takes a minute of processors.
	python string
	bring  func(context.Context) error
	// spark is an image with what the example's Spark stage needs, named by its digest, which
	// a laptop can have, too; without a name: there is none.
	spark cluster.Image
	// absent is an image that cannot be had.
	absent string
	// model is what users call its GPUs.
	model string
	// counts is true where a device plugin counts the GPUs: no part of one can be
	// given there.
	counts bool
	// apart is true where stages of pipelines share no folder with Muster.
	apart bool
	// asks is true where gangs that wait ask for nodes.
	asks bool
	// installed are the words of `muster install` by which it was; values are more of
	// them, as a file. None where it is not installed so.
	installed, values string
	// nodes are those of a Kubernetes that the platform started; none elsewhere.
	nodes []*cluster.Node
	// registry starts one that the platform pulls images from; nil: none can be there.
	registry func(context.Context) (*cluster.Registry, error)
	// another starts another platform of the kind, and vanish pulls the plug of one
	// of its nodes. Nil where a node that vanishes takes Muster along.
	another func(context.Context) (*platform, error)
	vanish  func(node string) error
	// signal sends a signal to a program of a Kubernetes that the platform started, such as
	// node-1/kubelet. Nil elsewhere.
	signal func(program string, signal syscall.Signal) error
	api    client.WithWatch
	core   kubernetes.Interface
	stop   func(context.Context) error
	// storage makes the folder behind the next claim, where nothing else
	// does.
	storage func(testing.TB)
}

// the is what is tested.
var the *platform

// platforms start what $MUSTER_PLATFORM names.
var platforms = map[string]func(context.Context) (*platform, error){
	"": embedded, "embedded": embedded,
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	name := os.Getenv("MUSTER_PLATFORM")
	start := platforms[name]
	if start == nil {
		fmt.Printf("MUSTER_PLATFORM is %q: there are embedded, cluster, agent and, with the build tag gpu, gpu\n", name)
		return 2
	}
	remove, err := harness.ShowTemporary()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer remove()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if the, err = start(ctx); err != nil {
		fmt.Println("starting what is to be tested:", err)
		return 1
	}
	code := m.Run()
	ctx, cancel = context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := the.stop(ctx); err != nil {
		fmt.Println("stopping what was tested:", err)
		code = 1
	}
	return code
}

// embedded starts `muster up` with pretended GPUs.
func embedded(ctx context.Context) (*platform, error) {
	home, err := os.MkdirTemp("", "muster-conformance-")
	if err != nil {
		return nil, err
	}
	tensorflow, err := environment(ctx)
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(home, "config.yaml")
	text := fmt.Sprintf("apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\nimages: {\"conformance/busybox:*\": host, \"conformance/python:*\": %q}\n", tensorflow)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return nil, err
	}
	tier := os.Getenv("MUSTER_TIER")
	if tier == "" {
		tier = "isolated"
	}
	m, err := harness.Up(ctx, home, "--tier", tier, "--simulate-gpus", "4xA100")
	if err != nil {
		return nil, err
	}
	p := &platform{kubeconfig: m.Kubeconfig(), image: "conformance/busybox:1", python: "conformance/python:1", absent: "conformance/absent:1", model: "A100"}
	p.storage = func(testing.TB) {} // Muster makes one
	p.stop = func(ctx context.Context) error {
		if err := m.Down(ctx); err != nil {
			return err
		}
		return os.RemoveAll(home)
	}
	return p, p.connect()
}

// muster runs the CLI as a user of the platform.
func (p *platform) muster(t testing.TB, args ...string) harness.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	return harness.Finish(cmd)
}

// kubectl runs kubectl; stdin may be empty.
func (p *platform) kubectl(t testing.TB, stdin string, args ...string) harness.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.KubectlBinary(), append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return harness.Finish(cmd)
}

// namespace makes one for a test, which goes with it, and with it whatever the
// test left there.
func (p *platform) namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.GenerateName = "c-"
	if err := p.api.Create(t.Context(), ns); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	harness.Eventually(t, 20*time.Second, "waiting for the default service account", func() error {
		return p.api.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := p.api.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
		p.settle(ctx, t, ns.Name)
	})
	return ns.Name
}

// settle waits until no pod of the namespace holds anything, so that the next
// test finds all GPUs free.
func (p *platform) settle(ctx context.Context, t testing.TB, ns string) {
	harness.Eventually(t, 2*time.Minute, "waiting until nothing of "+ns+" runs", func() error {
		var pods corev1.PodList
		if err := p.api.List(ctx, &pods, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are left, the first %s, %s", len(pods.Items), pods.Items[0].Name, pods.Items[0].Status.Phase)
		}
		return nil
	})
}
