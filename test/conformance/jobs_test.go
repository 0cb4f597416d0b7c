//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// connect makes the clients.
func (p *platform) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if p.core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	p.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return err
}

// connectOnceServed connects as soon as the server tells of Muster's kinds: a
// moment after they were made.
func (p *platform) connectOnceServed(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		if err := p.connect(); err != nil {
			return false, err
		}
		return p.api.List(ctx, &v1alpha1.TrainingJobList{}) == nil, nil
	})
}

// hold runs until the test lets it go.
const hold = `while [ ! -e "$MUSTER_ROOT/release" ]; do sleep 0.05; done`

// command is a role's command that runs a script in a shell, as YAML.
func command(script string) string { return fmt.Sprintf("[sh, -c, %q]", script) }

// submit creates a TrainingJob of the spec, in YAML. It names the platform's
// image and keeps nothing, unless the spec says otherwise.
func (p *platform) submit(t testing.TB, ns, name, spec string) {
	t.Helper()
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &job.Spec); err != nil {
		t.Fatalf("reading the spec of %s: %v", name, err)
	}
	if job.Spec.Environment == nil {
		job.Spec.Environment = &v1alpha1.Environment{Image: p.image}
	}
	if job.Spec.Checkpoints == nil {
		job.Spec.Checkpoints = &v1alpha1.Checkpoints{None: true}
	}
	if err := p.api.Create(t.Context(), job); err != nil {
		t.Fatalf("submitting %s: %v", name, err)
	}
}

// holding submits a job of one role whose members hold so many GPUs each until
// they are released.
func (p *platform) holding(t testing.TB, ns, name string, members, gpus int, more string) {
	t.Helper()
	p.submit(t, ns, name, fmt.Sprintf("{roles: [{name: worker, replicas: %d, gpus: %d, command: %s}]%s}", members, gpus, command(hold), more))
}

// job reads one.
func (p *platform) job(t testing.TB, ns, name string) *v1alpha1.TrainingJob {
	t.Helper()
	job := &v1alpha1.TrainingJob{}
	if err := p.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, job); err != nil {
		t.Fatal(err)
	}
	return job
}

// within is how long a test waits for what should be a matter of moments: a
// kubelet starts a container within some seconds.
const within = 90 * time.Second

// until waits until a job has a phase, and returns it.
func (p *platform) until(t testing.TB, ns, name string, phase v1alpha1.JobPhase) *v1alpha1.TrainingJob {
	t.Helper()
	var last *v1alpha1.TrainingJob
	harness.Eventually(t, within, "waiting until "+name+" is "+string(phase), func() error {
		if last = p.job(t, ns, name); last.Status.Phase != phase {
			return fmt.Errorf("it is %s: %s", last.Status.Phase, last.Status.Message)
		}
		return nil
	})
	return last
}

// says waits until a job's message has the words.
func (p *platform) says(t testing.TB, ns, name string, words ...string) {
	t.Helper()
	harness.Eventually(t, within, "waiting until "+name+" says why", func() error {
		message := p.job(t, ns, name).Status.Message
		for _, word := range words {
			if !strings.Contains(message, word) {
				return fmt.Errorf("it says %q, without %q", message, word)
			}
		}
		return nil
	})
}

// pods are those of a job that have not ended.
func (p *platform) pods(t testing.TB, ns, job string) (live []corev1.Pod) {
	t.Helper()
	var list corev1.PodList
	if err := p.api.List(t.Context(), &list, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelJob: job}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			live = append(live, pod)
		}
	}
	return live
}

// release lets the members of a role go, by their index.
func (p *platform) release(t testing.TB, ns, job, role string, indices ...int) {
	t.Helper()
	for _, i := range indices {
		pod := fmt.Sprintf("%s-%s-%d", job, role, i)
		if r := p.kubectl(t, "", "-n", ns, "exec", pod, "--", "sh", "-c", `: > "$MUSTER_ROOT/release"`); r.Code != 0 {
			t.Fatalf("releasing %s: %s", pod, r.Stderr)
		}
	}
}

// output is what a member printed.
func (p *platform) output(t testing.TB, ns, pod string) string {
	t.Helper()
	stream, err := p.core.CoreV1().Pods(ns).GetLogs(pod, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatalf("reading the logs of %s: %v", pod, err)
	}
	defer func() { _ = stream.Close() }()
	data, err := io.ReadAll(stream)
	if err != nil {
		t.Fatalf("reading the logs of %s: %v", pod, err)
	}
	return string(data)
}

// gone waits until nothing of a job is left but, if it was not deleted, itself.
func (p *platform) gone(t testing.TB, ns, job string) {
	t.Helper()
	lists := []client.ObjectList{&corev1.PodList{}, &v1alpha1.PlacementList{}, &v1alpha1.GangList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}}
	harness.Eventually(t, within, "waiting until nothing of "+job+" is left", func() error {
		for _, list := range lists {
			if err := p.api.List(context.Background(), list, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelJob: job}); err != nil {
				return err
			}
			left, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
			if err != nil {
				return err
			}
			if items, _ := left["items"].([]any); len(items) > 0 {
				return fmt.Errorf("%d left of %T", len(items), list)
			}
		}
		return nil
	})
}

// placements counts what holds anything in a namespace.
func (p *platform) placements(t testing.TB, ns string) int {
	t.Helper()
	var list v1alpha1.PlacementList
	if err := p.api.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}
