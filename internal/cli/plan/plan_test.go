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
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
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
	job, err := read(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	return job
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
		answer, err := plan(t.Context(), server, job(t, replicas), time.Now())
		if err != nil {
			t.Fatal(err)
		}
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
			_, err := Seen(t.Context(), server, server, "ada", job(t, "1"))
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
	for text, want := range map[string]string{
		"kind: ConfigMap\n":   "holds no training job",
		"kind: TrainingJob\n": "metadata.name is missing",
		"kind: [\n":           "no object in YAML",
		"kind: TrainingJob\nspec: {rolls: []}\nmetadata: {name: a}\n":      "did you mean roles?",
		"kind: TrainingJob\nspec: {roles: 3}\nmetadata: {name: a}\n":       "no training job",
		"kind: TrainingJob\nmetadata: {name: a}\n---\nkind: TrainingJob\n": "several",
	} {
		if _, err := read(strings.NewReader(text), "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", text, err, want)
		}
	}
	if _, err := read(nil, filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
