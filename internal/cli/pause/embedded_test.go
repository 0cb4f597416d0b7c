//go:build embedded

package pause_test

import (
	"context"
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestOrdersToTheScheduler runs the verbs by which people steer the scheduler,
// and the rules of the fields that it reads, against a real API server.
func TestOrdersToTheScheduler(t *testing.T) {
	server := rehearsal.Start(t)
	urgent := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 100}
	if err := server.Client.Create(t.Context(), urgent); err != nil {
		t.Fatal(err)
	}
	t.Run("verbs", func(t *testing.T) { server.Run(t, verbs) })
	t.Run("durations", func(t *testing.T) { checkDurations(t.Context(), t, server.Client) })
}

var verbs = []rehearsal.Step{
	{Args: "pause --queue vision", Code: 3, Says: "there is no queue vision"},
	{Args: "pause --reason switches", Says: "scheduling paused: what runs goes on"},
	{Args: "pause", Says: "already: scheduling is paused since "},
	{Args: "pause --queue default", Says: "queue default stopped"},
	{Args: "run --detach --name mnist --code none --queue visoin --priority urgnt --expect 2h --max-time 30d --resumable -- true", Says: "there is no queue visoin: the job waits until there is"},
	{Args: "why mnist", Says: ": switches (`muster unpause` ends it)"},
	{Args: "run --detach --name two --code none --priority urgnt -- true", Says: "there is no priority class urgnt (did you mean urgent?)"},
	{Args: "get -o wide", Says: "EVICTIONS"},
	{Args: "describe mnist", Says: "to run for 2h 0m"},
	{Args: "release mnist --force --yes", Code: 3, Says: "mnist holds nothing"},
	{Args: "unpause", Says: "still: queue default is stopped since "},
	{Args: "unpause --queue default", Says: "queue default goes on"},
	{Args: "why two", Says: "two Accepted"},
}

// What a Go program could not read back, the API server does not take: one
// such object would keep every controller from reading any.
func checkDurations(ctx context.Context, t *testing.T, server client.Client) {
	for _, text := range []string{"90m", "2h30m", "26h0m0s", "99999h0m0s", "1s"} {
		if err := server.Create(ctx, job(text), client.DryRunAll); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "soon", "2d", "0s", "-1h", "1.5h", "999999h", "2h ", "h", "2h30", "1m500ms"} {
		err := server.Create(ctx, job(text), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "such as 90m, 2h or 2h30m") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	gang := &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec: v1alpha1.GangSpec{
			Roles: []v1alpha1.GangRole{{Name: "worker", Replicas: 1}}, DoneWhen: []string{"worker"}, Resumable: true,
			ExpectedRunTime: &metav1.Duration{Duration: 90 * time.Minute}, TimeLimit: &metav1.Duration{Duration: 99999 * time.Hour},
		},
	}
	if err := server.Create(ctx, gang); err != nil {
		t.Error(err)
	}
}

// job is a TrainingJob with this expected run time, whatever it says.
func job(expected string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob",
		"metadata": map[string]any{"namespace": "default", "name": "a"},
		"spec": map[string]any{
			"expectedRunTime": expected, "roles": []any{map[string]any{"name": "worker", "command": []any{"true"}}},
		},
	}}
}
