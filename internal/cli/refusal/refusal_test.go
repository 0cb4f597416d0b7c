package refusal

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestSentences(t *testing.T) {
	for _, test := range []struct {
		name  string
		cause metav1.StatusCause
		want  string
	}{
		{"minimum", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.roles[0].replicas", Message: "Invalid value: -1: spec.roles[0].replicas in body should be greater than or equal to 1"},
			"spec.roles[0].replicas: -1 is not allowed: it must be greater than or equal to 1"},
		{"enumeration", metav1.StatusCause{Type: metav1.CauseTypeFieldValueNotSupported, Field: "spec.framework", Message: `Unsupported value: "Tensorflow": supported values: "TensorFlow", "PyTorch", "None"`},
			`spec.framework: "Tensorflow" is not allowed; allowed are "TensorFlow", "PyTorch", "None"`},
		{"type", metav1.StatusCause{Type: metav1.CauseTypeTypeInvalid, Field: "spec.roles[0].replicas", Message: `Invalid value: "string": spec.roles[0].replicas in body must be of type integer: "string"`},
			"spec.roles[0].replicas: given is a value of type string; it must be of type integer"},
		{"pattern", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.code.url", Message: `Invalid value: "ftp://a": spec.code.url in body should match '^https?://'`},
			`spec.code.url: "ftp://a" is not allowed: it must match '^https?://'`},
		{"rule about a scalar", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.roles[0].gpus", Message: `Invalid value: "two": gpus must be a whole number of GPUs`},
			`spec.roles[0].gpus: "two": gpus must be a whole number of GPUs`},
		{"rule about an object", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec", Message: `Invalid value: "object": roles: parameter servers (ps) without workers: add a role named worker (or chief)`},
			"spec: roles: parameter servers (ps) without workers: add a role named worker (or chief)"},
		{"rule about the whole", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "<nil>", Message: `Invalid value: {"apiVersion":"x"}: the name may have at most 48 characters`},
			`the name may have at most 48 characters`},
		{"required", metav1.StatusCause{Type: metav1.CauseTypeFieldValueRequired, Field: "spec.roles", Message: "Required value"},
			"spec.roles: must be given"},
		{"duplicate", metav1.StatusCause{Type: metav1.CauseTypeFieldValueDuplicate, Field: "spec.roles[1]", Message: `Duplicate value: {"name":"worker"}`},
			`spec.roles[1]: {"name":"worker"} is given twice`},
		{"rule that names its field", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata", Message: `Invalid value: {"name":"x_"}: metadata.name: at most 30 characters`},
			"metadata.name: at most 30 characters"},
		{"rule without a value", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata", Message: `Invalid value: the name may have at most 48 characters`},
			"metadata: the name may have at most 48 characters"},
		{"rule without a value that names its field", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata", Message: `Invalid value: metadata.name: at most 30 characters`},
			"metadata.name: at most 30 characters"},
		{"unknown words", metav1.StatusCause{Type: "Odd", Field: "spec", Message: "something odd"}, "spec: something odd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{test.cause, test.cause}}}
			if diff := cmp.Diff([]string{test.want}, Sentences(status)); diff != "" {
				t.Errorf("sentences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	undeclared := &apierrors.StatusError{ErrStatus: metav1.Status{
		Message: `failed to create typed patch object (default/a; muster.dev/v1alpha1, Kind=TrainingJob): errors:
  .spec.roles[name="worker"].gpu: field not declared in schema
  .spec.suspended: field not declared in schema`,
	}}
	got := Explain("job.yaml", undeclared)
	want := "job.yaml has 2 mistakes:\n  spec.roles[name=\"worker\"].gpu: there is no such field; did you mean gpus?\n  spec.suspended: there is no such field; did you mean suspend?"
	if got.Error() != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(got, undeclared) {
		t.Error("the server's error is lost")
	}
	strict := &apierrors.StatusError{ErrStatus: metav1.Status{Message: `strict decoding error: unknown field "spec.rolls"`}}
	if got := Explain("a", strict).Error(); got != "a: spec.rolls: there is no such field" {
		t.Errorf("got %q", got)
	}
	create := &apierrors.StatusError{ErrStatus: metav1.Status{Message: `TrainingJob in version "v1alpha1" cannot be handled as a TrainingJob: strict decoding error: unknown field "spec.rolls"`}}
	if got, want := Explain("a", create).Error(), "a: spec.rolls: there is no such field; did you mean roles?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	other := errors.New("no connection")
	if got := Explain("a", other); !errors.Is(got, other) || got.Error() != other.Error() {
		t.Errorf("another error became %q", got)
	}
}

func TestMisread(t *testing.T) {
	for _, test := range []struct{ name, kind, tree, want string }{
		{"a stage", "Pipeline", `{"spec":{"stages":[{"name":"a"},{"gpu":1}]}}`, "p: spec.stages[1].gpu: there is no such field; did you mean gpus?"},
		{"none near", "Pipeline", `{"spec":{"stages":[{"input":{"zzzzzzzz":1}}]}}`, "p: spec.stages[0].input.zzzzzzzz: there is no such field; there are branch, cron, cross, dataset, "},
		{"the top", "Pipeline", `{"spek":{}}`, "p: spek: there is no such field; did you mean spec?"},
		{"no such kind", "Pipelime", `{"spek":{}}`, "p: spek: there is no such field"},
		{"two", "Pipeline", `{"spek":{},"spec":{"stagez":[]}}`, "p has 2 mistakes:\n  "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var tree map[string]any
			if err := json.Unmarshal([]byte(test.tree), &tree); err != nil {
				t.Fatal(err)
			}
			type plain v1alpha1.Pipeline
			err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, &plain{}, true)
			got := Misread(test.kind, "p", err)
			if !strings.HasPrefix(got.Error(), test.want) || !errors.Is(got, err) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	other := errors.New("no connection")
	if got := Misread("Pipeline", "p", other); !errors.Is(got, other) || got.Error() != other.Error() {
		t.Errorf("another error became %q", got)
	}
}

// Fields inside pods' templates, which are Kubernetes' own, are known, too;
// what a quantity holds is nobody's business.
func TestFieldsAt(t *testing.T) {
	if got := fieldsAt("TrainingJob", `spec.roles[name="worker"].template.spec.containers[0]`); !slices.Contains(got, "imagePullPolicy") {
		t.Errorf("a container has %q", got)
	}
	for _, path := range []string{"spec.nowhere", "spec.roles[0].gpus.x", "metadata.labels.x"} {
		if got := fieldsAt("TrainingJob", path); got != nil {
			t.Errorf("%s has %q", path, got)
		}
	}
}
