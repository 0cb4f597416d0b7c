package v1alpha1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

// TestUnreadable decodes a list with one object whose spec the types cannot hold: it says
// why, with its name and status, and the others are whole.
func TestUnreadable(t *testing.T) {
	const text = `{"kind":"TrainingJobList","items":[
		{"metadata":{"name":"a","uid":"1"},"spec":{"queue":"q","roles":[{"name":"w","command":["a"]}]},"status":{"phase":"Running"}},
		{"metadata":{"name":"b","uid":"2","labels":{"x":"y"}},"spec":{"queue":"q","roles":"all"},"status":{"phase":"Running"}}]}`
	list := &TrainingJobList{}
	if err := json.Unmarshal([]byte(text), list); err != nil {
		t.Fatal(err)
	}
	a, b := &list.Items[0], &list.Items[1]
	if a.Unreadable != "" || a.Spec.Queue != "q" || len(a.Spec.Roles) != 1 || a.Status.Phase != JobRunning {
		t.Errorf("the first is %+v", a)
	}
	if b.Unreadable != "spec.roles: a string is given, and a list is wanted" || b.Name != "b" || b.UID != "2" || b.Labels["x"] != "y" || b.Status.Phase != JobRunning || b.Spec.Queue != "" {
		t.Errorf("the second is %+v", b)
	}
	again, err := json.Marshal(b)
	if err != nil || strings.Contains(string(again), "nmarshal") {
		t.Errorf("it is written as %s, %v", again, err)
	}
}

// TestUnreadableStatus refuses an object whose status the types cannot hold: the manager
// writes these itself, and would lose one.
func TestUnreadableStatus(t *testing.T) {
	for _, o := range []any{&TrainingJob{}, &Pipeline{}, &PipelineRun{}} {
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"a"},"spec":{},"status":{"phase":{}}}`), o); err == nil {
			t.Errorf("%T: it was read", o)
		}
	}
}

// TestUnreadableSentences names the field, the value that is given and the value that is wanted.
func TestUnreadableSentences(t *testing.T) {
	for text, want := range map[string]string{
		`{"roles":[{"template":{"spec":{"containers":"x"}}}]}`:                    "spec.roles.template.spec.containers: a string is given, and a list is wanted",
		`{"roles":[{"template":{"spec":{"terminationGracePeriodSeconds":1.5}}}]}`: "spec.roles.template.spec.terminationGracePeriodSeconds: a number is given, and a whole number is wanted",
		`{"roles":[{"template":{"spec":{"hostNetwork":{}}}}]}`:                    "spec.roles.template.spec.hostNetwork: an object is given, and true or false is wanted",
		`{"roles":[{"template":{"metadata":{"labels":[]}}}]}`:                     "spec.roles.template.metadata.labels: a list is given, and an object is wanted",
		`{"framework":{"a":1}}`: "spec.framework: an object is given, and a value of type Framework is wanted",
	} {
		job := &TrainingJob{}
		if err := json.Unmarshal([]byte(`{"spec":`+text+`}`), job); err != nil || job.Unreadable != want {
			t.Errorf("%s: %q, %v; want %q", text, job.Unreadable, err, want)
		}
	}
}

// TestUnreadableIsShort bounds the text about a long value.
func TestUnreadableIsShort(t *testing.T) {
	job := &TrainingJob{}
	text := `{"spec":{"roles":[{"resources":{"limits":{"cpu":"` + strings.Repeat("9", 10000) + `x"}}}]}}`
	if err := json.Unmarshal([]byte(text), job); err != nil {
		t.Fatal(err)
	}
	if job.Unreadable == "" || len(job.Unreadable) > 310 {
		t.Errorf("%d bytes: %s", len(job.Unreadable), job.Unreadable)
	}
}
