package answers_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/cli/answers"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/why"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/visibility"
)

// TestWhyAtTheDoor: a user of one namespace is told why a pod there does not start, also if
// only an event has the reason. No words of theirs are an error of the manager, which commands
// would ask again.
func TestWhyAtTheDoor(t *testing.T) {
	scheme, err := connection.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "debug", UID: "u"}, Spec: corev1.PodSpec{NodeName: "one"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "ada", Name: "debug.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ada", Name: "debug", UID: "u"},
		Type:           corev1.EventTypeWarning, Reason: "FailedMount", Message: "no such claim",
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod, event).WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
		return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
	}).Build()
	cache := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, events := list.(*corev1.EventList); events {
				return errors.New("there is no index of that name")
			}
			return c.List(ctx, list, opts...)
		},
	})
	a, ada := answers.New(answers.Options{Cache: cache, API: api}), visibility.Rule{Own: "ada"}
	got, err := a.Why(t.Context(), ada, "ada", "pod/debug")
	if answer, _ := got.(why.Answer); err != nil || answer.Job != "pod/debug" || !strings.Contains(answer.Reason, "no such claim") {
		t.Errorf("%+v, %v", got, err)
	}
	for word, status := range map[string]int{
		"pod/none": http.StatusNotFound, "gang/none": http.StatusNotFound, "none": http.StatusNotFound,
		"": http.StatusUnprocessableEntity, "..": http.StatusUnprocessableEntity, "pod/..": http.StatusUnprocessableEntity, "pod/a%2fb": http.StatusUnprocessableEntity,
		"pod/../secrets/x": http.StatusUnprocessableEntity, "secret/x": http.StatusUnprocessableEntity, "deployment/web": http.StatusUnprocessableEntity,
	} {
		_, err := a.Why(t.Context(), ada, "ada", word)
		if refusal, is := errors.AsType[*door.Refusal](err); !is || refusal.Status != status {
			t.Errorf("%q: %v, want status %d", word, err, status)
		}
	}
	if _, err := a.Why(t.Context(), visibility.Rule{Own: "bob"}, "bob", "pod/debug"); err == nil {
		t.Error("bob has no pod debug")
	}
}
