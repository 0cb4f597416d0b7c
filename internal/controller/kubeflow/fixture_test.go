package kubeflow

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// mnist is a TFJob as people have it: 2 parameter servers and 4 workers.
const mnist = `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist, namespace: vision}
spec:
  tfReplicaSpecs:
    PS:
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: tensorflow
            image: example/dist-mnist:1.0
    Worker:
      replicas: 4
      restartPolicy: Never
      template:
        metadata:
          annotations: {sidecar.istio.io/inject: "false"}
        spec:
          containers:
          - name: tensorflow
            image: example/dist-mnist:1.0
            resources: {limits: {nvidia.com/gpu: 1}}
`

// send is a PyTorchJob: a master and 3 workers.
const send = `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: send, namespace: vision}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: pytorch, image: "example/send:1.0"}]}}
    Worker:
      replicas: 3
      template: {spec: {containers: [{name: pytorch, image: "example/send:1.0"}]}}
`

// manifest reads an object as an API server would keep it.
func manifest(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	// Numbers are whole, as they are when an API server sends them.
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	u.SetUID(types.UID("uid-" + u.GetName()))
	return u
}

// read makes a job of a manifest.
func read(t testing.TB, text string) *job {
	t.Helper()
	u := manifest(t, text)
	for _, d := range doors {
		if d.kind == u.GetKind() {
			return newJob(d, u)
		}
	}
	t.Fatalf("no door for %s", u.GetKind())
	return nil
}

// with replaces part of a manifest.
func with(t testing.TB, text, from, to string) string {
	t.Helper()
	if !strings.Contains(text, from) {
		t.Fatalf("the manifest has no %q", from)
	}
	return strings.Replace(text, from, to, 1)
}

// made is the TrainingJob of a job as the server keeps it.
func made(j *job) *v1alpha1.TrainingJob {
	t := j.trainingJob()
	t.UID = "uid-training"
	return t
}

func at(seconds int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))
}
