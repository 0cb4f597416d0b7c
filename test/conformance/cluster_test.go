//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

func init() {
	platforms["cluster"] = func(ctx context.Context) (*platform, error) { return realKubernetes(ctx, false) }
	platforms["agent"] = func(ctx context.Context) (*platform, error) { return realKubernetes(ctx, true) }
}

// realKubernetes starts one with two nodes of two pretended GPUs each, beside
// one without, and installs Muster on it as its users do: the chart, the manager
// in a pod, and who owns the GPU nodes. The GPUs are named by Muster's agent, or
// counted by a device plugin.
func realKubernetes(ctx context.Context, agent bool) (*platform, error) {
	shell, err := cluster.Shell(ctx)
	if err != nil {
		return nil, err
	}
	manager, err := cluster.Program(ctx, "muster.test/muster:v1", harness.Binary(), "/muster")
	if err != nil {
		return nil, err
	}
	tensorflow, err := environment(ctx)
	if err != nil {
		return nil, err
	}
	python, err := cluster.Python(ctx, filepath.Join(tensorflow, "bin", "python"))
	if err != nil {
		return nil, err
	}
	python.Files = append(python.Files, cluster.File{To: quickstart(), From: quickstart()})
	if !agent { // where there are no stages, and one test alone trains
		p, err := startKubernetes(ctx, agent, 0, nil, manager, shell)
		if err == nil {
			p.bring = func(ctx context.Context) error { return importOn(ctx, p.nodes, python) }
		}
		return p, err
	}
	spark, err := cluster.Spark(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startKubernetes(ctx, agent, 0, []cluster.Image{spark}, manager, shell, python)
	if err == nil {
		p.spark = spark
	}
	return p, err
}

// importOn imports an image on all nodes.
func importOn(ctx context.Context, nodes []*cluster.Node, image cluster.Image) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		group.Go(func() error { return node.Import(ctx, image) })
	}
	return group.Wait()
}

// startKubernetes is the same with these images, of which the first has the shell; the
// large ones are on nodes with GPUs alone. A node that does not answer for the patience is
// taken for unreachable; 0: as Kubernetes does, 50 seconds.
func startKubernetes(ctx context.Context, agent bool, patience time.Duration, large []cluster.Image, manager cluster.Image, images ...cluster.Image) (*platform, error) {
	const product = "NVIDIA-A100-SXM4-80GB"
	gpu := cluster.NodeOptions{GPUs: 2, Product: product, Images: images}
	if agent {
		gpu = cluster.NodeOptions{Images: slices.Concat([]cluster.Image{manager}, images, large)}
	}
	options := cluster.Options{Scheduler: true, Nodes: []cluster.NodeOptions{gpu, gpu, {Images: append([]cluster.Image{manager}, images...)}}}
	if patience > 0 {
		options.Args = map[string][]string{"kube-controller-manager": {"--node-monitor-period=1s", "--node-monitor-grace-period=" + patience.String()}}
	}
	started, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	p := &platform{
		kubeconfig: started.Kubeconfig(), image: cluster.ShellImage, python: cluster.PythonImage, absent: "muster.test/absent:1", model: "A100",
		counts: !agent, apart: agent, asks: true, nodes: started.Nodes,
		stop: func(context.Context) error { return started.Stop() },
		another: func(ctx context.Context) (*platform, error) {
			return startKubernetes(ctx, agent, 10*time.Second, nil, manager, images[0])
		},
		vanish:   func(node string) error { return started.Node(node).Vanish() },
		signal:   started.Signal,
		registry: started.Registry,
	}
	p.storage = p.folder
	if err := p.install(ctx, started, agent); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	if err := p.connectOnceServed(ctx); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return p, nil
}

// shelf is a volume on node-3 in which code is kept, and the claim for it.
const shelf = `{apiVersion: v1, kind: List, items: [
	{apiVersion: v1, kind: PersistentVolume, metadata: {name: store}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: "",
		claimRef: {namespace: muster-system, name: store}, hostPath: {path: /var/lib/muster-store}}},
	{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: store, namespace: muster-system}, spec: {accessModes: [ReadWriteOnce], storageClassName: "",
		volumeName: store, resources: {requests: {storage: 1Gi}}}}]}`

// install puts Muster on the cluster and gives it the nodes with GPUs.
func (p *platform) install(ctx context.Context, on *cluster.Cluster, agent bool) error {
	p.installed = "install --reset-values --set image.repository=muster.test/muster --set image.tag=v1 --set manager.replicas=1 --set manager.resources.limits=null" +
		" --set manager.nodeSelector.kubernetes\\.io/hostname=node-3 --set autoscaler.enabled=true --set autoscaler.after=1s --set defaultQueue.subjects[0].kind=Group --set defaultQueue.subjects[0].name=system:authenticated"
	add := "node add node-1 node-2"
	if !agent {
		p.installed += " --set manager.extraArgs[0]=--store-folder=/tmp/store"
		return p.installAnd(ctx, add)
	}
	// The manager is not root, and Kubernetes makes no folder of its own for it.
	if said, err := on.Node("node-3").Command(ctx, "mkdir", "-m", "777", "/var/lib/muster-store").CombinedOutput(); err != nil {
		return fmt.Errorf("making a folder for code: %w: %s", err, said)
	}
	// On the command line it would be no text.
	p.values = `agent: {nodeSelector: {muster.dev/agent: "true"}, extraArgs: [--data-leaves-free=1]}`
	p.installed += " --set agent.create=true --set agent.simulateGPUs=2xA100 --set store.persistentVolumeClaim=store --set data.gateway.enabled=true"
	add += " --force" // which the nodes show once they have the agent
	// The claim is in a namespace that comes with the installation.
	if err := p.reinstall(ctx, "--no-wait"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, harness.KubectlBinary(), "--kubeconfig", p.kubeconfig, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(shelf)
	if r := harness.Finish(cmd); r.Code != 0 {
		return fmt.Errorf("making a claim: %s%s", r.Stdout, r.Stderr)
	}
	return p.installAnd(ctx, add)
}

func (p *platform) installAnd(ctx context.Context, line string) error {
	if err := p.reinstall(ctx); err != nil {
		return err
	}
	return p.words(ctx, line)
}

// reinstall installs what is tested as it was, and further words.
func (p *platform) reinstall(ctx context.Context, more ...string) error {
	line := strings.Join(append([]string{p.installed}, more...), " ")
	if p.values != "" {
		values, err := os.CreateTemp("", "muster-conformance-")
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(values.Name()) }()
		if _, err = values.WriteString(p.values); errors.Join(err, values.Close()) != nil {
			return err
		}
		line += " --values " + values.Name()
	}
	return p.words(ctx, line)
}

// words runs the CLI as whoever installs the platform.
func (p *platform) words(ctx context.Context, line string) error {
	cmd := exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", p.kubeconfig}, strings.Fields(line)...)...)
	if r := harness.Finish(cmd); r.Code != 0 {
		return fmt.Errorf("muster %s: %s%s", line, r.Stdout, r.Stderr)
	}
	return nil
}

// folder makes a volume of a folder of this machine, which all nodes see. It
// stands for the network storage that a cluster has.
func (p *platform) folder(t testing.TB) {
	t.Helper()
	volume := &corev1.PersistentVolume{}
	volume.GenerateName = "folder-"
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()},
		},
	}
	if err := p.api.Create(t.Context(), volume); err != nil {
		t.Fatalf("making a volume: %v", err)
	}
	t.Cleanup(func() {
		if err := p.api.Delete(context.Background(), volume); err != nil {
			t.Errorf("deleting the volume: %v", err)
		}
	})
}
