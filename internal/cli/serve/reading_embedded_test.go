//go:build embedded

package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// TestJobsReadData is a job that reads data on a cluster, from the command line to what
// the agent of its node may fetch and says of it, with the rights of the manager's and
// the agents' accounts alone.
func TestJobsReadData(t *testing.T) {
	server := rehearsal.StartCluster(t)
	home, files := t.TempDir(), t.TempDir()
	t.Setenv("MUSTER_HOME", home)
	write(t, filepath.Join(files, "train", "0"), "zero")
	write(t, filepath.Join(files, "test", "1"), "one")
	kubeconfig := filepath.Join(home, "ada.kubeconfig")
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set manager.replicas=0,agent.create=true,store.persistentVolumeClaim=store,namespace.podSecurity=privileged", Says: "is applied"},
		{Args: "user add ada --lifetime 1h --file " + kubeconfig, Says: "ada"},
	})
	ada := server.As(t, kubeconfig)
	address := standIn(t, server.Client)
	metrics := freeAddress(t)
	serve(t, server, "--door", address, "--agents", "--store-folder", t.TempDir(), "--default-image", "busybox", "--metrics", metrics)
	rehearsal.AddOwned(t, server.Client, "one", 4)
	awaitDoor(t, ada)
	// 1. A job names a branch, and its pod what that was.
	ada.Run(t, []rehearsal.Step{
		{Args: "data create digits", Says: "digits"},
		{Args: "data put " + files + " digits"},
		{Args: "run --detach --checkpoints none --gpus 2 --code none --name reads --data digits:/train=/data -- true", Says: "reads"},
		{Args: "run --detach --checkpoints none --code none --name never --data digits@next -- true"},
	})
	awaitPhase(t, server.Client, "ada", "never", v1alpha1.JobFailed)
	awaitPhase(t, server.Client, "ada", "reads", v1alpha1.JobStarting)
	pod := &corev1.Pod{}
	rehearsal.Eventually(t, "its pod", func(ctx context.Context) bool {
		return server.Client.Get(ctx, client.ObjectKey{Namespace: "ada", Name: "reads-worker-0"}, pod) == nil
	})
	a := attributes(pod)
	if a["words"] != "digits@main:/train" || len(a["commit"]) != 64 || len(a["key"]) != 64 {
		t.Fatalf("its pod names %v", a)
	}
	// 2. The agent of its node reads that, and nothing of others'.
	door := agentOf(t, server, "one", address)
	if got := fetched(t, door, a); got != "zero" {
		t.Errorf("it fetches %q", got)
	}
	for node, namespace := range map[string]string{"one": "default", "elsewhere": "ada"} {
		_, err := at(t, agentOf(t, server, node, address), namespace, a["commit"])
		if err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
			t.Errorf("the agent of %s reads the data of %s: %v", node, namespace, err)
		}
	}
	// 3. What it says is what people see, and GPUs that are held for it are counted.
	tells(t, door, map[types.UID]v1alpha1.PodData{pod.UID: {Reason: v1alpha1.DataFetching, Message: "fetching digits@main:/train: 1 of 4 bytes"}})
	job := &v1alpha1.TrainingJob{}
	rehearsal.Eventually(t, "the job says how far its data is", func(ctx context.Context) bool {
		return server.Client.Get(ctx, client.ObjectKey{Namespace: "ada", Name: "reads"}, job) == nil && job.Status.Message == "data: fetching digits@main:/train: 1 of 4 bytes (node one)"
	})
	held := `muster_gpus_held{queue="ada",state="fetching"} 2`
	if text := served(t, metrics); !strings.Contains(text, held) {
		t.Errorf("the metrics do not say %s:\n%s", held, text)
	}
	now := metav1.NewMicroTime(time.Now())
	tells(t, door, map[types.UID]v1alpha1.PodData{pod.UID: {Reason: v1alpha1.DataMounted, Mounted: 1, MountedTime: &now}})
	rehearsal.Eventually(t, "what was held for data is counted", func(ctx context.Context) bool {
		return server.Client.Get(ctx, client.ObjectKey{Namespace: "ada", Name: "reads"}, job) == nil && job.Status.DataSeconds != nil
	})
	if one, two := job.Status.DataSeconds.AsApproximateFloat64(), job.Status.DataGPUSeconds.AsApproximateFloat64(); one <= 0 || two < 2*one-0.01 || two > 2*one+0.01 {
		t.Errorf("%v seconds, %v GPU seconds", one, two)
	}
	ada.Run(t, []rehearsal.Step{
		{Args: "describe reads", Says: "digits@main"},
		{Args: "describe never", Says: "dataset digits has no branch, tag or commit next; it has main"},
	})
}

// freeAddress is one of this machine's that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = probe.Close() }()
	return probe.Addr().String()
}

// served are Muster's own metrics.
func served(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "muster_") {
			ours = append(ours, line)
		}
	}
	return strings.Join(ours, "")
}

// attributes are those of a pod's volume of data.
func attributes(pod *corev1.Pod) map[string]string {
	for _, v := range pod.Spec.Volumes {
		if v.CSI != nil && v.CSI.Driver == v1alpha1.DataDriver {
			return v.CSI.VolumeAttributes
		}
	}
	return nil
}

// agentOf is how the agent of a node reaches the door.
func agentOf(t *testing.T, server *rehearsal.Server, node, address string) *visitor.Visitor {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, GenerateName: "muster-node-"},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: v1alpha1.NodeAccount, Containers: []corev1.Container{{Name: "agent", Image: "muster"}}},
	}
	if err := server.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.NodeAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{v1alpha1.DoorAudience}, BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if err := server.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return visitor.Direct(visitor.DirectOptions{
		Address: "https://" + address,
		Certificates: func(ctx context.Context) ([]byte, error) {
			m := &corev1.ConfigMap{}
			err := server.Client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.DoorName}, m)
			text := ""
			for _, one := range m.Data {
				text += one + "\n"
			}
			return []byte(text), err
		},
		Token: func(context.Context) (string, error) { return request.Status.Token, nil },
	})
}

// at is what a commit of a namespace holds, as somebody sees it.
func at(t *testing.T, door *visitor.Visitor, namespace, commit string) (*data.View, error) {
	t.Helper()
	store, err := data.Open(t.Context(), data.Options{Backend: door.Data(namespace), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store.Dataset(&ref.Memory{}).At(t.Context(), commit)
}

// fetched is the file 0 of what a volume of ada's names.
func fetched(t *testing.T, door *visitor.Visitor, a map[string]string) string {
	t.Helper()
	view, err := at(t, door, "ada", a["commit"])
	if err != nil {
		t.Fatal(err)
	}
	if key := cache.Key(view, a["path"]); key != a["key"] {
		t.Errorf("the key is %s, and the pod says %s", key, a["key"])
	}
	kept, err := cache.Open(cache.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	f, release, err := kept.EnsureFor(t.Context(), "ada", view, a["path"], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	text, err := os.ReadFile(filepath.Join(f.Path, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tells has an agent say how the data of pods stands, until it is heard.
func tells(t *testing.T, door *visitor.Visitor, what map[types.UID]v1alpha1.PodData) {
	t.Helper()
	rehearsal.Eventually(t, "the door knows the pods", func(ctx context.Context) bool {
		unknown, err := door.Arrivals(ctx, what)
		return err == nil && len(unknown) == 0
	})
}
