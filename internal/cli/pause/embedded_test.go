//go:build embedded

package pause_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/controlplane/upstream"
)

// The test binary is the control plane's child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == contract.Verb {
		if err := upstream.RunChild(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestOrdersToTheScheduler runs the verbs by which people steer the scheduler,
// and the rules of the fields that it reads, against a real API server.
func TestOrdersToTheScheduler(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := controlplane.Start(ctx, controlplane.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	scheme, err := connection.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	server, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 100}); err != nil {
		t.Fatal(err)
	}
	t.Run("verbs", func(t *testing.T) { checkVerbs(t, c.Kubeconfig()) })
	t.Run("durations", func(t *testing.T) { checkDurations(ctx, t, server) })
}

func checkVerbs(t *testing.T, kubeconfig string) {
	for _, step := range []struct {
		args string
		code int
		says string
	}{
		{"pause --queue vision", 3, "there is no queue vision"},
		{"pause --reason switches", 0, "scheduling paused: what runs goes on"},
		{"pause", 0, "already: scheduling is paused since "},
		{"pause --queue default", 0, "queue default stopped"},
		{"run --detach --name mnist --code none --queue visoin --priority urgnt --expect 2h --max-time 30d --resumable -- true", 0, "there is no queue visoin: the job waits until there is"},
		{"why mnist", 0, ": switches (`muster unpause` ends it)"},
		{"run --detach --name two --code none --priority urgnt -- true", 0, "there is no priority class urgnt (did you mean urgent?)"},
		{"get -o wide", 0, "EVICTIONS"},
		{"describe mnist", 0, "to run for 2h 0m"},
		{"release mnist --force --yes", 3, "mnist holds nothing"},
		{"unpause", 0, "still: queue default is stopped since "},
		{"unpause --queue default", 0, "queue default goes on"},
		{"why two", 0, "two Accepted"},
	} {
		var out bytes.Buffer
		args := append(strings.Split(step.args, " "), "--kubeconfig", kubeconfig)
		if cut := strings.Index(step.args, " -- "); cut >= 0 { // what comes after is the job's
			args = append(strings.Split(step.args[:cut], " "), "--kubeconfig", kubeconfig, "--", step.args[cut+4:])
		}
		code := cli.Execute(t.Context(), args, terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: &out, NoColor: true})
		if int(code) != step.code || !strings.Contains(out.String(), step.says) {
			t.Errorf("muster %s: code %d, want %d and %q:\n%s", step.args, code, step.code, step.says, &out)
		}
	}
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
