package plan

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/imagecheck"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/visibility"
)

const file = `apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist, namespace: default}
spec:
  roles:
  - name: worker
    replicas: REPLICAS
    gpus: 1
    command: [python, train.py]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
`

func job(t *testing.T, replicas string) *v1alpha1.TrainingJob {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(file, "REPLICAS", replicas, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	works, err := read(nil, path, false)
	if err != nil {
		t.Fatal(err)
	}
	return works[0].job
}

// One GPU of eight is free: one member starts, three wait and are told what
// would start; and nothing is created.
func TestPlan(t *testing.T) {
	box := sample.Box()
	box.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	objects := []client.Object{box}
	for _, more := range [][]client.Object{
		sample.Work("scan", "", "ada", 0, 3, v1alpha1.GangRunning), sample.Work("sweep", "", "bob", 3, 4, v1alpha1.GangRunning),
	} {
		objects = append(objects, more...)
	}
	server := sample.World(t, objects...)
	for replicas, want := range map[string][]string{
		"1": {"mnist would start now\n", "worker-0", "box"},
		"3": {"mnist would wait: ", "Sooner:   ask for 1 worker instead of 3"},
	} {
		answers, err := plan(t.Context(), server, []work{{at: "job.yaml", job: job(t, replicas)}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		answer := answers[0]
		var text strings.Builder
		if err := answer.write(&text, terminal.Coloured(false)); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s replicas: %q is missing in:\n%s", replicas, part, &text)
			}
		}
		encoded, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`"starts":` + map[bool]string{true: "true", false: "false"}[replicas == "1"], `"code":`, `"reason":`} {
			if !strings.Contains(string(encoded), part) {
				t.Errorf("%s is missing in %s", part, encoded)
			}
		}
	}
	var jobs v1alpha1.TrainingJobList
	if err := server.List(t.Context(), &jobs); err != nil {
		t.Fatal(err)
	}
	for _, one := range jobs.Items {
		if one.Name == "mnist" {
			t.Error("the job was created")
		}
	}
}

// A plan is made for who asks, whatever the job says.
func TestWhosePlanItIs(t *testing.T) {
	eve := map[string]string{v1alpha1.AnnotationSubmitter: "eve@example.com", v1alpha1.AnnotationAuthenticated: "true", "example.com/note": "kept"}
	for name, c := range map[string]struct {
		says map[string]string
		asks string
		want string
	}{
		"somebody else's name": {eve, "ada@example.com", "ada@example.com"},
		"no name":              {nil, "ada@example.com", "ada@example.com"},
		"nobody known asks":    {eve, "", ""},
		"nobody at all":        {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := job(t, "1")
			job.Annotations = c.says
			before := maps.Clone(c.says)
			job.ObjectMeta = submitted(job, c.asks)
			gang, problem := trainingjob.Planned(job)
			if problem != "" {
				t.Fatal(problem)
			}
			if got := manifest.User(gang.Annotations); got != c.want {
				t.Errorf("it is charged to %q, want %q", got, c.want)
			}
			if !maps.Equal(before, c.says) || job.Annotations["example.com/note"] != c.says["example.com/note"] {
				t.Errorf("what it said became %v, and it says %v", c.says, job.Annotations)
			}
		})
	}
}

// A quota that is used up is told as the reason, and not as a failure of the manager.
func TestAQuotaIsTold(t *testing.T) {
	resource := schema.GroupResource{Group: "muster.dev", Resource: "trainingjobs"}
	for name, c := range map[string]struct {
		refused error
		told    bool
	}{
		"a full quota":     {apierrors.NewForbidden(resource, "plan-x", errors.New("exceeded quota: muster-objects, requested: count/trainingjobs.muster.dev=1, used: count/trainingjobs.muster.dev=2k, limited: count/trainingjobs.muster.dev=2k")), true},
		"no right":         {apierrors.NewForbidden(resource, "", errors.New(`User "manager" cannot create resource "trainingjobs"`)), false},
		"a server's fault": {apierrors.NewInternalError(errors.New("exceeded quota")), false},
	} {
		t.Run(name, func(t *testing.T) {
			server := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.refused },
			})
			_, err := Seen(t.Context(), server, server, visibility.Rule{Own: "default"}, nil, "ada", job(t, "1"))
			_, told := errors.AsType[*exit.Error](err)
			if !errors.Is(err, c.refused) || told != c.told {
				t.Errorf("the error is %v, told as a refusal: %v", err, told)
			}
			if c.told && !strings.Contains(err.Error(), "quota muster-objects") && !strings.Contains(err.Error(), "exceeded quota: muster-objects") {
				t.Errorf("the quota is not named: %v", err)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	const of = "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\n"
	for text, want := range map[string]string{
		"apiVersion: kubeflow.org/v1\nkind: JAXJob\nmetadata: {name: a}\n": "Muster places no JAXJob of kubeflow.org: write it as a PyTorchJob",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n":           "holds no training job",
		of:          "metadata.name is missing",
		"kind: [\n": "no object in YAML",
		of + "spec: {rolls: []}\nmetadata: {name: a}\n":                                                                               "did you mean roles?",
		of + "spec: {roles: 3}\nmetadata: {name: a}\n":                                                                                "no training job",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}":                                                      "no pod with schedulerName: muster",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 65, template: {spec: {schedulerName: muster}}}": "at most 64 pods",
		"apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {rolls: []}\n":                                          "TFJob a would be refused",
	} {
		if _, err := read(strings.NewReader(text), "-", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", text, err, want)
		}
	}
	if _, err := read(nil, filepath.Join(t.TempDir(), "none.yaml"), false); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// several is a file with work of every kind that Muster places, a GPU each but for the
// last, and with a pod of another scheduler.
const several = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: cifar, namespace: default}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: a/b, resources: {limits: {nvidia.com/gpu: 1}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: debug, namespace: default}
spec: {schedulerName: muster, containers: [{name: main, image: a/b, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: convert, namespace: default}
spec: {parallelism: 2, template: {spec: {schedulerName: muster, containers: [{name: main, image: a/b, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec: {template: {spec: {containers: [{name: main, image: a/b}]}}}
---
` + file

// Of several pieces of work with four GPUs free, those that come first in the file start.
func TestPlanOfSeveral(t *testing.T) {
	box := sample.Box()
	box.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	objects := append([]client.Object{box}, sample.Work("scan", "", "ada", 0, 4, v1alpha1.GangRunning)...)
	server := sample.World(t, objects...)
	works, err := read(strings.NewReader(strings.Replace(several, "REPLICAS", "1", 1)), "-", false)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := plan(t.Context(), server, works, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, a := range answers {
		got[a.Job] = a.Starts
	}
	want := map[string]bool{"cifar": true, "pod/debug": true, "pod/convert-0": true, "pod/convert-1": false, "mnist": false}
	if !maps.Equal(got, want) {
		t.Errorf("what starts: %v, want %v", got, want)
	}
	var text strings.Builder
	for _, a := range answers {
		if err := a.write(&text, terminal.Coloured(false)); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"cifar would start now\n", "worker-1", "pod/debug would start now\n", "debug ", "pod/convert-1 would wait: "} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, &text)
		}
	}
	// An embedded Muster places the pods of the default scheduler, too.
	works, err = read(strings.NewReader(strings.Replace(several, "REPLICAS", "1", 1)), "-", true)
	if err != nil || len(works) != 5 {
		t.Errorf("an embedded Muster plans %d objects: %v", len(works), err)
	}
}

// TestRefusedImages: work whose image this machine cannot run would not start. A job then takes no
// place of the others; a pod does, because it stays on its node.
func TestRefusedImages(t *testing.T) {
	box := sample.Box()
	box.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("2")}
	const pod = `---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "NAME", "namespace": "default"}, "spec": {"schedulerName": "muster", "containers": [{"name": "c", "image": "IMAGE"}]}}
`
	file := `{"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a", "namespace": "default"}, "spec": {"environment": {"image": "box:1"}, "roles": [{"name": "worker", "replicas": 2, "command": ["x"]}]}}
`
	for _, names := range [][2]string{{"b", "box:2"}, {"c", v1alpha1.HostImage}, {"d", v1alpha1.HostImage}} {
		file += strings.NewReplacer("NAME", names[0], "IMAGE", names[1]).Replace(pod)
	}
	works, err := read(strings.NewReader(file), "-", true)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	f := connection.New(terminal.Streams{}, "test")
	f.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := instance.Home(home).Write(instance.State{Images: "none: images can be run by root alone, and this Muster is not"}); err != nil {
		t.Fatal(err)
	}
	machine := imagecheck.Of(f)
	for i := range works {
		works[i].refused = machine.Refusal(works[i].images)
	}
	answers, err := plan(t.Context(), sample.World(t, box), works, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, a := range answers {
		if err := a.write(&text, terminal.Coloured(false)); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{
		`a would not start: this machine cannot run the image "box:1": images can be run by root alone`, `pod/b would not start: this machine cannot run the image "box:2"`,
		"pod/c would start now\n", "pod/d would wait: ",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, &text)
		}
	}
	if answers[0].Starts || answers[0].Code != "Unsupported" {
		t.Errorf("for programs: %+v", answers[0])
	}
}
