//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// platform is a cluster with Muster on it.
type platform struct {
	cluster *cluster.Cluster
	api     client.Client
	ns      string
}

// newWorld starts a Kubernetes of three nodes, two of them with GPUs, with two
// managers on the third.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		T: t, random: rand.New(rand.NewPCG(seed, 0)), token: fmt.Sprintf("CHAOS=%d", seed), book: t.TempDir(),
		jobs: map[string]bool{}, doomed: map[string]bool{}, devices: map[string]bool{}, killed: map[string]int{},
	}
	shell, err := cluster.Shell(t.Context())
	w.must(err)
	on := []cluster.Image{shell} // members without GPUs come there, too
	for _, tag := range []string{"v1", "v2"} {
		image, err := cluster.Program(t.Context(), "muster.test/muster:"+tag, harness.Binary(), "/muster")
		w.must(err)
		on = append(on, image)
	}
	gpu := cluster.NodeOptions{GPUs: gpus / 2, Images: []cluster.Image{shell}}
	w.cluster, err = cluster.Start(t.Context(), cluster.Options{
		Scheduler: true, Nodes: []cluster.NodeOptions{gpu, gpu, {Images: on}},
	})
	w.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.cluster.Tails())
		}
		if err := w.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.install("v1")
	w.muster("node add node-1 node-2")
	w.connect()
	w.shelf()
	return w
}

// install installs Muster in a version, or changes to that.
func (w *world) install(version string) {
	w.Helper()
	w.muster("install --set image.repository=muster.test/muster --set manager.replicas=2 --set manager.resources.limits=null --set image.tag=" + version +
		" --set manager.nodeSelector.kubernetes\\.io/hostname=node-3 --set defaultQueue.subjects[0].kind=Group --set defaultQueue.subjects[0].name=system:authenticated")
}

// muster runs the CLI as an administrator.
func (w *world) muster(line string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), harness.Binary(), append([]string{"--kubeconfig", w.cluster.Kubeconfig()}, strings.Fields(line)...)...)
	if r := harness.Finish(cmd); r.Code != 0 {
		w.Fatalf("muster %s: %s%s", line, r.Stdout, r.Stderr)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// connect makes the client, once the server tells of Muster's kinds, and the
// namespace.
func (w *world) connect() {
	w.Helper()
	scheme := runtime.NewScheme()
	w.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	config := w.cluster.Config()
	config.QPS = -1
	config.Timeout = 10 * time.Second
	harness.Eventually(w, time.Minute, "connecting", func() (err error) {
		if w.api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return err
		}
		return w.api.List(w.Context(), &v1alpha1.TrainingJobList{})
	})
	w.ns = "chaos"
	w.must(w.api.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}))
	harness.Eventually(w, time.Minute, "waiting for the default service account", func() error {
		return w.api.Get(w.Context(), client.ObjectKey{Namespace: w.ns, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// shelf makes the book a claim that every node sees.
func (w *world) shelf() {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	many, none := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, ""
	w.must(w.api.Create(w.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "book"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: many,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: w.book}},
		},
	}))
	w.must(w.api.Create(w.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "book"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: many, StorageClassName: &none, VolumeName: "book", Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}))
}

// gang is a job of workers with a GPU each and a parameter server.
func (w *world) gang(name string) *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	token, seed, _ := strings.Cut(w.token, "=")
	job.Spec.Environment = &v1alpha1.Environment{Image: cluster.ShellImage}
	job.Spec.Checkpoints = &v1alpha1.Checkpoints{None: true}
	job.Spec.Volumes = []v1alpha1.JobVolume{{Name: "book", Claim: "book", MountPath: "/book"}}
	job.Spec.Env = []corev1.EnvVar{{Name: token, Value: seed}, {Name: "BOOK", Value: "/book"}}
	line := []string{"sh", "-c", fmt.Sprintf(script, name)}
	n, one, gpu := int32(workers), int32(1), resource.MustParse("1")
	job.Spec.Roles = []v1alpha1.Role{
		{Name: "worker", Replicas: &n, GPUs: &gpu, Command: line},
		{Name: "ps", Replicas: &one, Command: line},
	}
	for i := range job.Spec.Roles {
		job.Spec.Roles[i].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse("16Mi")}
	}
	return job
}
