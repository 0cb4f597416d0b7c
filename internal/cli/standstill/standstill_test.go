package standstill

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func marked(text string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.SystemNamespace, Annotations: map[string]string{"other": "stays", v1alpha1.AnnotationPaused: text},
	}}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Standstill{
		"ada@box 2026-03-01T12:00:00Z":              {Who: "ada@box", Since: noon},
		"ada@box 2026-03-01T12:00:00Z new switches": {Who: "ada@box", Since: noon, Why: "new switches"},
		"because I say so":                          {Why: "because I say so"},
		"true":                                      {Why: "true"},
	} {
		got := parse("", text)
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	mark := Standstill{Who: "Ada L@box", Since: noon.Local(), Why: " new\nswitches "}
	if got, want := mark.value(), "Ada-L@box 2026-03-01T12:00:00Z new switches"; got != want {
		t.Errorf("value %q, want %q", got, want)
	}
	if got, want := (Standstill{Since: noon}).value(), "unknown 2026-03-01T12:00:00Z"; got != want {
		t.Errorf("value %q, want %q", got, want)
	}
}

// Pausing twice keeps who did it first; other annotations stay throughout.
func TestEverything(t *testing.T) {
	mark := Standstill{Who: "ada@box", Since: noon, Why: "new switches"}
	for name, objects := range map[string][]client.Object{"with the namespace": {marked("")}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			c := sample.World(t, objects...)
			if before, err := Set(t.Context(), c, mark); before != nil || err != nil {
				t.Fatalf("%v, %v", before, err)
			}
			before, err := Set(t.Context(), c, Standstill{Who: "bob@box", Since: noon.Add(time.Hour)})
			if diff := cmp.Diff(&mark, before); diff != "" || err != nil {
				t.Fatalf("error %v, mark (-want +got):\n%s", err, diff)
			}
			if before, err = Clear(t.Context(), c, ""); before == nil || err != nil {
				t.Fatalf("%v, %v", before, err)
			}
			if now, err := Everywhere(t.Context(), c); now != nil || err != nil {
				t.Fatalf("%v, %v", now, err)
			}
			if before, err = Clear(t.Context(), c, ""); before != nil || err != nil {
				t.Fatalf("%v, %v", before, err)
			}
			var namespace corev1.Namespace
			if err := c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.SystemNamespace}, &namespace); err != nil {
				t.Fatal(err)
			}
			if len(objects) > 0 && namespace.Annotations["other"] != "stays" {
				t.Errorf("annotations %v", namespace.Annotations)
			}
		})
	}
}

func TestQueues(t *testing.T) {
	c := sample.Team(t)
	mark := Standstill{Queue: "vision", Who: "ada@box", Since: noon}
	if before, err := Set(t.Context(), c, mark); before != nil || err != nil {
		t.Fatalf("%v, %v", before, err)
	}
	if _, err := Set(t.Context(), c, Standstill{Queue: "default", Since: noon}); err != nil {
		t.Fatal(err)
	}
	if _, err := Set(t.Context(), c, Standstill{Who: "bob@box", Since: noon}); err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]string{
		"ocr":     "scheduling is paused by bob@box; queue vision is stopped by ada@box",
		"vision":  "scheduling is paused by bob@box; queue vision is stopped by ada@box",
		"batch":   "scheduling is paused by bob@box; queue batch is stopped", // stopped by hand, nobody says since when
		"":        "scheduling is paused by bob@box; queue default is stopped by unknown",
		"missing": "scheduling is paused by bob@box",
	} {
		marks, err := Of(t.Context(), c, queue)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, m := range marks {
			m.Since = time.Time{}
			words = append(words, m.String())
		}
		if got := strings.Join(words, "; "); got != want {
			t.Errorf("queue %q: %s, want %s", queue, got, want)
		}
	}
	before, err := Clear(t.Context(), c, "vision")
	if diff := cmp.Diff(&mark, before); diff != "" || err != nil {
		t.Errorf("error %v, mark (-want +got):\n%s", err, diff)
	}
	var vision v1alpha1.Queue
	if err := c.Get(t.Context(), client.ObjectKey{Name: "vision"}, &vision); err != nil || vision.Spec.Stopped || len(vision.Annotations) > 0 {
		t.Errorf("error %v, %+v", err, vision)
	}
	if before, err = Clear(t.Context(), c, "maps"); before != nil || err != nil {
		t.Errorf("%v, %v", before, err)
	}
	_, err = Set(t.Context(), c, Standstill{Queue: "visoin"})
	if code, _ := exit.Of(err); code != exit.Missing || !strings.HasSuffix(err.Error(), "did you mean vision?") {
		t.Errorf("error %v", err)
	}
}

// Queues that are above one another are looked at once each.
func TestCycleOfQueues(t *testing.T) {
	stop := func(s *v1alpha1.QueueSpec) { s.Stopped = true }
	c := sample.World(t, sample.Queue("a", "b", "", stop), sample.Queue("b", "a", "", stop))
	marks, err := Of(t.Context(), c, "a")
	if err != nil || len(marks) != 2 {
		t.Errorf("%v, %v", marks, err)
	}
}

// TestQueueOfAUser: a sentence names the user, and the command to end it the queue.
func TestQueueOfAUser(t *testing.T) {
	s := Standstill{Queue: "u-1001", Login: "ann"}
	if got := s.String(); got != "the queue of ann is stopped" {
		t.Errorf("%q", got)
	}
	if got := s.Remedy(); got != "muster unpause --queue u-1001" {
		t.Errorf("%q", got)
	}
}
