//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// distMnist is a TFJob as people have it, but for the script, which is in the
// image there: 2 parameter servers that never end, 4 workers with a GPU each.
const distMnist = `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: dist-mnist
spec:
  tfReplicaSpecs:
    PS:
      replicas: 2
      restartPolicy: Never
      template: &member
        spec:
          containers:
          - name: tensorflow
            image: kubeflow/tf-dist-mnist-test:1.0
            ports:
            - name: tfjob-port
              containerPort: 2222
            command:
            - python
            - -c
            - |
              import json, os, socket, sys, time
              config = json.loads(os.environ["TF_CONFIG"])
              assert config["environment"] == "cloud", config
              cluster, task = config["cluster"], config["task"]
              assert len(cluster["ps"]) == 2 and len(cluster["worker"]) == 4, config
              host, port = cluster[task["type"]][task["index"]].rsplit(":", 1)
              if task["type"] == "ps":
                  server = socket.create_server(("", int(port)))
                  while True:
                      peer, _ = server.accept()
                      peer.sendall(b"from ps %d" % task["index"])
                      peer.close()
              def ask(address):
                  for attempt in range(200):
                      try:
                          with socket.create_connection(address, timeout=5) as peer:
                              return peer.recv(100).decode()
                      except OSError as error:
                          last = error
                          time.sleep(0.1)
                  sys.exit(f"{address}: {last}")
              for address in cluster["ps"]:
                  host, port = address.rsplit(":", 1)
                  print("worker", task["index"], "heard", ask((host, int(port))), flush=True)
              if "BY_NAME" in os.environ:
                  print("by name:", ask(("dist-mnist-ps-1", 2222)), flush=True)
              while task["index"] == 0 and not os.path.exists(os.environ["GATE"]):
                  time.sleep(0.05)
    Worker:
      replicas: 4
      restartPolicy: ExitCode
      template: *worker
`

// doors starts a Muster of a tier that maps the images of these tests to an
// environment with the machine's Python, and a folder for the test's files.
func doors(t *testing.T, x *tier) (m *harness.Muster, dir string) {
	t.Helper()
	dir = t.TempDir()
	venv := filepath.Join(dir, "venv")
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Fatalf("making an environment: %v\n%s", err, out)
	}
	return muster(t, x, "images: {\"kubeflow/*\": "+venv+"}\n"), dir
}

// muster starts a Muster of a tier for one test alone, with this configuration.
func muster(t *testing.T, x *tier, config string) *harness.Muster {
	t.Helper()
	home := t.TempDir()
	text := "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\n" + config
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := harness.Up(deadline(t, 2*time.Minute), home, x.args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

// expand makes of the short form above what kubectl applies: the workers'
// template is that of the parameter servers, with a GPU and some variables.
func expand(env map[string]string) string {
	ps, _, _ := strings.Cut(distMnist, "    Worker:")
	_, member, _ := strings.Cut(ps, "      template: &member\n")
	limits := "            resources: {limits: {nvidia.com/gpu: 1}}\n            env:\n"
	for name, value := range env {
		limits += fmt.Sprintf("            - {name: %s, value: %q}\n", name, value)
	}
	worker := strings.Replace(member, "            command:\n", limits+"            command:\n", 1)
	return strings.ReplaceAll(strings.Replace(distMnist, " *worker", "\n"+worker, 1), " &member", "")
}

// foreign reads a TFJob's or PyTorchJob's status.
func foreign(t *testing.T, m *harness.Muster, kind, ns, name string) kubeflowv1.JobStatus {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kubeflowv1.GroupVersion.WithKind(kind))
	if err := m.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, u); err != nil {
		t.Fatal(err)
	}
	var status kubeflowv1.JobStatus
	if content, ok := u.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
			t.Fatal(err)
		}
	}
	return status
}

// waitCondition waits until the newest condition is this one, and returns the
// status.
func waitCondition(t *testing.T, m *harness.Muster, kind, ns, name, want string) kubeflowv1.JobStatus {
	t.Helper()
	var status kubeflowv1.JobStatus
	harness.Eventually(t, 2*time.Minute, "waiting for "+want+" of "+name, func() error {
		status = foreign(t, m, kind, ns, name)
		if n := len(status.Conditions); n == 0 || string(status.Conditions[n-1].Type) != want {
			return fmt.Errorf("conditions %+v", status.Conditions)
		}
		return nil
	})
	return status
}

// waitDrained waits until the last member of a job that has ended is gone: the
// outcome is told before.
func waitDrained(t *testing.T, m *harness.Muster, ns, name string) {
	t.Helper()
	harness.Eventually(t, time.Minute, "waiting for the members of "+name+" to go", func() error {
		if j := job(t, m, ns, name); j.Status.DrainedTime == nil {
			return fmt.Errorf("it is %s: %s", j.Status.Phase, j.Status.Message)
		}
		return nil
	})
}

// TestTFJob applies the manifest that people have: it runs, says so in its own
// terms, and its parameter servers are stopped once worker 0 is done.
func TestTFJob(t *testing.T) {
	for _, x := range tiers {
		t.Run(x.name, func(t *testing.T) {
			m, dir := doors(t, x)
			ns := m.Namespace(t)
			ctx := deadline(t, 5*time.Minute)
			gate := filepath.Join(dir, "gate")
			env := map[string]string{"GATE": gate}
			if x.name == "isolated" {
				env["BY_NAME"] = "yes"
			}
			expect(t, m.Kubectl(ctx, expand(env), "-n", ns, "apply", "-f", "-"), 0, "tfjob.kubeflow.org/dist-mnist created")
			status := waitCondition(t, m, "TFJob", ns, "dist-mnist", "Running")
			if status.StartTime == nil || status.CompletionTime != nil || status.Conditions[0].Reason != "TFJobCreated" {
				t.Errorf("while it runs: %+v", status)
			}
			// 1. What scripts and dashboards select by.
			selected := func(selector, want string) {
				t.Helper()
				r := m.Kubectl(ctx, "", "-n", ns, "get", "pods", "-o", "name", "-l", selector)
				if got := strings.Join(strings.Fields(r.Stdout), " "); got != want {
					t.Errorf("pods with %s: %s, want %s; %s", selector, got, want, r.Stderr)
				}
			}
			selected("training.kubeflow.org/job-name=dist-mnist,training.kubeflow.org/replica-type=ps", "pod/dist-mnist-ps-0 pod/dist-mnist-ps-1")
			selected("training.kubeflow.org/replica-type=worker,training.kubeflow.org/replica-index=3", "pod/dist-mnist-worker-3")
			selected("training.kubeflow.org/job-role=master", "pod/dist-mnist-worker-0")
			selected(status.ReplicaStatuses["PS"].Selector, "pod/dist-mnist-ps-0 pod/dist-mnist-ps-1")
			expect(t, m.Kubectl(ctx, "", "-n", ns, "get", "service", "dist-mnist-worker-3", "dist-mnist-ps-0"), 0)
			// 2. Muster's commands take it for the job that it is.
			expect(t, m.Run(ctx, "-n", ns, "why", "tfjob/dist-mnist"), 0, "Running")
			expect(t, m.Run(ctx, "-n", ns, "describe", "tfjob/dist-mnist"), 0, "worker-3", "ps-1")
			expect(t, m.Run(ctx, "-n", ns, "get", "tfjobs"), 0, "dist-mnist", "Running")
			// 3. The end of worker 0 is the end.
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			status = waitCondition(t, m, "TFJob", ns, "dist-mnist", "Succeeded")
			for _, c := range status.Conditions {
				if c.Type == kubeflowv1.JobRunning && c.Status != corev1.ConditionFalse {
					t.Errorf("it still runs: %+v", c)
				}
			}
			if ps, workers := status.ReplicaStatuses["PS"], status.ReplicaStatuses["Worker"]; ps.Succeeded != 2 || ps.Active != 0 || workers.Succeeded != 4 || workers.Active != 0 || status.CompletionTime == nil {
				t.Errorf("in the end: %+v, %+v, %+v", ps, workers, status)
			}
			waitDrained(t, m, ns, "dist-mnist")
			nothingLeft(t, m, ns)
			words := []string{"worker 0 heard from ps 0", "worker 0 heard from ps 1"}
			if x.name == "isolated" {
				words = append(words, "by name: from ps 1")
			}
			expect(t, m.Run(ctx, "-n", ns, "logs", "tfjob/dist-mnist", "--role", "worker"), 0, words...)
			// 4. It goes as a whole.
			expect(t, m.Run(ctx, "-n", ns, "delete", "tfjob/dist-mnist"), 0, "dist-mnist deleted")
			if r := m.Kubectl(ctx, "", "-n", ns, "get", "tfjob", "dist-mnist"); r.Code == 0 {
				t.Error("the TFJob is still there")
			}
		})
	}
}

// allReduce is a PyTorchJob of a master and 2 workers, with gloo.
const allReduce = `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: all-reduce
spec:
  runPolicy: {suspend: true, ttlSecondsAfterFinished: 600, schedulingPolicy: {scheduleTimeoutSeconds: 60}}
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: kubeflow/pytorch-dist-mnist:latest
            command:
            - python
            - -c
            - |
              import torch, torch.distributed as dist
              dist.init_process_group("gloo")
              total = torch.tensor([dist.get_rank() + 1.0])
              dist.all_reduce(total)
              print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {total.item():g}", flush=True)
              dist.barrier()
    Worker:
`

// TestPyTorchJob suspends, resumes and finishes one.
func TestPyTorchJob(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import torch.distributed").Run(); err != nil {
		t.Skip("/usr/bin/python3 has no PyTorch: install Debian's python3-torch")
	}
	m, _ := doors(t, plainTier)
	ns := m.Namespace(t)
	ctx := deadline(t, 5*time.Minute)
	_, replica, _ := strings.Cut(allReduce, "Master: &replica\n")
	replica, _, _ = strings.Cut(replica, "    Worker:")
	text := strings.Replace(allReduce, " &replica", "", 1) + strings.Replace(replica, "replicas: 1", "replicas: 2", 1)
	expect(t, m.Kubectl(ctx, text, "-n", ns, "apply", "-f", "-"), 0, "created")
	status := waitCondition(t, m, "PyTorchJob", ns, "all-reduce", "Suspended")
	if !strings.Contains(status.Conditions[0].Message, "Without effect: spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds") {
		t.Errorf("nothing says what has no effect: %+v", status.Conditions[0])
	}
	expect(t, m.Kubectl(ctx, "", "-n", ns, "patch", "pytorchjob", "all-reduce", "--type=merge", "-p", `{"spec":{"runPolicy":{"suspend":false}}}`), 0)
	status = waitCondition(t, m, "PyTorchJob", ns, "all-reduce", "Succeeded")
	if got := status.ReplicaStatuses["Master"]; got == nil || got.Succeeded != 1 {
		t.Errorf("master %+v", got)
	}
	expect(t, m.Run(ctx, "-n", ns, "logs", "pytorchjob/all-reduce", "--role", "master"), 0, "rank 0 of 3: sum 6")
	waitDrained(t, m, ns, "all-reduce")
	nothingLeft(t, m, ns)
}

// TestForeignJobsThatAreNotRun: one of another controller stays untouched, and
// one with a field that nobody knows is refused in words that name it.
func TestForeignJobsThatAreNotRun(t *testing.T) {
	m := plainTier.start(t)
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	apply := func(text string) {
		t.Helper()
		expect(t, m.Kubectl(ctx, text, "-n", ns, "apply", "-f", "-"), 0, "created")
	}
	// The one of another is applied first, so that it had its time.
	other := strings.Replace(expand(nil), "spec:\n", "spec:\n  runPolicy: {managedBy: kueue.x-k8s.io/multikueue}\n", 1)
	apply(other)
	misspelt := strings.Replace(expand(nil), "name: dist-mnist", "name: misspelt", 1)
	apply(strings.Replace(misspelt, "            image: kubeflow", "            imagePullPolice: Always\n            image: kubeflow", 1))
	status := waitCondition(t, m, "TFJob", ns, "misspelt", "Failed")
	want := "spec.tfReplicaSpecs.PS.template.spec.containers[0].imagePullPolice is not a field that is known here"
	if c := status.Conditions[1]; c.Reason != "TFJobFailedValidation" || !strings.Contains(c.Message, want) {
		t.Errorf("%s: %s; want %s", c.Reason, c.Message, want)
	}
	expect(t, m.Run(ctx, "-n", ns, "why", "tfjob/misspelt"), 0, want)
	expect(t, m.Run(ctx, "-n", ns, "delete", "tfjob/misspelt"), 0, "misspelt deleted")
	if status := foreign(t, m, "TFJob", ns, "dist-mnist"); len(status.Conditions) != 0 {
		t.Errorf("the job of another controller was written to: %+v", status)
	}
	var trainings v1alpha1.TrainingJobList
	if err := m.Client.List(ctx, &trainings, client.InNamespace(ns)); err != nil || len(trainings.Items) != 0 {
		t.Errorf("%d training jobs were made, %v", len(trainings.Items), err)
	}
	// What the schema knows is refused at once.
	r := m.Kubectl(ctx, strings.Replace(expand(nil), "restartPolicy: ExitCode", "restartPolicy: Sometimes", 1), "-n", ns, "apply", "-f", "-")
	expect(t, r, 1, `spec.tfReplicaSpecs.Worker.restartPolicy: Unsupported value: "Sometimes"`)
	r = m.Kubectl(ctx, "", "-n", ns, "patch", "tfjob", "dist-mnist", "--type=merge", "-p", `{"spec":{"runPolicy":{"managedBy":"muster.dev/kubeflow"}}}`)
	expect(t, r, 1, "managedBy cannot be changed")
	expect(t, m.Kubectl(ctx, "", "-n", ns, "delete", "tfjob", "dist-mnist"), 0)
}

// trained is a TFJob that trains with TensorFlow, in an image that the
// configuration maps to an environment.
const trained = `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: digits}
spec:
  successPolicy: AllWorkers
  runPolicy: {cleanPodPolicy: All}
  tfReplicaSpecs:
    PS:
      template: {spec: {containers: [{name: tensorflow, image: "tensorflow/tensorflow:2", command: [python, TRAIN, --steps, "600"]}]}}
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - {name: tensorflow, image: "tensorflow/tensorflow:2", command: [python, TRAIN, --steps, "600"], resources: {limits: {nvidia.com/gpu: 1}}}
`

// TestTFJobTrains is one with the real TensorFlow: a parameter server and 2
// workers that find one another by TF_CONFIG, and no pod left in the end.
func TestTFJobTrains(t *testing.T) {
	ctx := deadline(t, 12*time.Minute)
	// 1. An environment with TensorFlow, as any job makes one.
	maker := plainTier.start(t)
	ns := maker.Namespace(t)
	expect(t, maker.RunIn(ctx, example("quickstart"), "-n", ns, "run", "--name", "environment", "--requirements", "requirements.txt", "--", "python", "-c", "pass"), 0)
	key := job(t, maker, ns, "environment").Status.EnvironmentKey
	found, err := filepath.Glob(filepath.Join(maker.Home, "environments", key, "venv"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the environment %s is at %q, %v", key, found, err)
	}
	// 2. An image that means it.
	m := muster(t, plainTier, "images: {\"tensorflow/*\": "+found[0]+"}\n")
	ns = m.Namespace(t)
	// 3. The job.
	manifest := strings.ReplaceAll(trained, "TRAIN", filepath.Join(example("quickstart"), "train.py"))
	expect(t, m.Kubectl(ctx, manifest, "-n", ns, "apply", "-f", "-"), 0, "created")
	status := waitCondition(t, m, "TFJob", ns, "digits", "Succeeded")
	if got := status.ReplicaStatuses["Worker"].Succeeded; got != 2 {
		t.Errorf("%d workers succeeded", got)
	}
	logs := m.Run(ctx, "-n", ns, "logs", "tfjob/digits")
	expect(t, logs, 0, "worker-0", "accuracy")
	if accuracy := lastFloat(t, logs.Stdout, `accuracy ([0-9.]+)`); accuracy < 0.5 {
		t.Errorf("accuracy %v, want at least 0.5", accuracy)
	}
	harness.Eventually(t, 30*time.Second, "waiting for its pods to go", func() error {
		var pods corev1.PodList
		if err := m.Client.List(ctx, &pods, client.InNamespace(ns), client.MatchingLabels{kubeflowv1.LabelJobName: "digits"}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return nil
	})
}
