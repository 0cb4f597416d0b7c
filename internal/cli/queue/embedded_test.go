//go:build embedded

package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/refusal"
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

// TestQueues runs the verbs, and the rules of the kind, against a real API
// server.
func TestQueues(t *testing.T) {
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
	t.Run("verbs", func(t *testing.T) { checkVerbs(t, c.Kubeconfig()) })
	t.Run("rules", func(t *testing.T) { checkRules(ctx, t, server) })
}

func checkVerbs(t *testing.T, kubeconfig string) {
	for _, step := range []struct {
		args string
		code int
		says string
	}{
		{"queue list", 0, "default  -           -     -         -      0        implied"},
		{"queue create vision --guaranteed cpu=4,memory=1Gi --limit cpu=8 --weight 2", 0, "queue vision created"},
		{"queue create vision", 1, "there is a queue vision already"},
		{"q create ocr --parent vision --guaranteed cpu=2", 0, "queue ocr created"},
		{"queue create maps --parent vison", 3, "did you mean vision?"},
		{"queue create maps --borrowing=false", 1, "borrowing: Never needs guaranteed"},
		{"queue edit ocr --guaranteed cpu=8", 1, "its children are guaranteed"},
		{"queue edit ocr --guaranteed cpu=1 --stopped", 0, "queue ocr changed"},
		{"queue edit ocr --stopped", 0, "queue ocr unchanged"},
		{"queue list -o name", 0, "queue.muster.dev/ocr\nqueue.muster.dev/vision\n"},
		{"queue list -o yaml", 0, "stopped: true"},
		{"queue ls", 0, "└─ ocr   cpu=1"},
		{"queue describe ocr", 0, "Parent         vision"},
		{"get queues", 0, "vision"},
		{"get mq vision", 0, "vision"},
		{"queue delete vision", 1, "ocr is below it"},
		{"queue delete vision ocr", 0, "queue vision deleted\nqueue ocr deleted\n"},
		{"queue lits", 2, "did you mean muster queue list?"},
		{"queue delete", 2, "delete which queue?"},
		{"queue edit", 2, "edit which queue?"},
		{"queue describe", 2, "describe which queue?"},
		{"queue list now", 2, "list takes no arguments"},
	} {
		var out, errs bytes.Buffer
		code := cli.Execute(t.Context(), append(strings.Fields(step.args), "--kubeconfig", kubeconfig),
			terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: &errs, NoColor: true})
		if said := out.String() + errs.String(); int(code) != step.code || !strings.Contains(said, step.says) {
			t.Errorf("muster %s: code %d, want %d and %q:\n%s", step.args, code, step.code, step.says, said)
		}
	}
}

func checkRules(ctx context.Context, t *testing.T, server client.Client) {
	for _, tt := range []struct{ name, spec, want string }{
		{"fine", `{parent: vision, guaranteed: {gpu: 8, A100: 500m, cpu: "64", memory: 512Gi}, limit: {gpu: "8"}, lendingLimit: {gpu: 2}}`, ""},
		{"empty", `{}`, ""},
		{"itself", `{parent: itself}`, "queue itself: spec.parent: a queue cannot be its own parent; leave it empty for a child of the root"},
		{"negative", `{guaranteed: {gpu: -1}}`, "queue negative: spec.guaranteed: amounts must not be negative: give 0 or more, such as gpu: 8, cpu: 64, memory: 512Gi, A100: 500m"},
		{"half-negative", `{limit: {A100: "-500m"}}`, "queue half-negative: spec.limit: amounts must not be negative: give 0 or more, such as gpu: 8, cpu: 64, memory: 512Gi, A100: 500m"},
		{"class", `{limit: {"a/b": 1}}`, "queue class: spec.limit: name a class: cpu, memory, gpu, or a GPU model such as A100"},
		{"limit", `{guaranteed: {gpu: 8, cpu: 1}, limit: {gpu: 4500m}}`, "queue limit: spec: limit: less than guaranteed; a queue must be allowed to use what it is guaranteed: raise the limit or lower the guarantee"},
		{"lending", `{lendingLimit: {gpu: 8}}`, "queue lending: spec: lendingLimit needs guaranteed: only what a queue is guaranteed can be lent"},
		{"weight", `{weight: 0}`, "queue weight: spec.weight: 0 is not allowed: it must be greater than or equal to 1"},
		{"reclaim", `{preemption: {reclaim: Some}}`, `queue reclaim: spec.preemption.reclaim: "Some" is not allowed; allowed are "Any", "LowerPriority", "Never"`},
		{"a.b", `{}`, "queue a.b: metadata.name: at most 63 lower-case letters, digits and '-', because jobs name their queue by it"},
	} {
		object := &v1alpha1.Queue{}
		object.Name = tt.name
		if err := yaml.Unmarshal([]byte(tt.spec), &object.Spec); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := server.Create(ctx, object); err != nil {
			got = refusal.Explain("queue "+tt.name, err).Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if weight := object.Spec.Weight; tt.want == "" && (weight == nil || *weight != 1 || object.Spec.UserFairness == nil || object.Spec.Borrowing != v1alpha1.BorrowingAllowed) {
			t.Errorf("%s: defaults are missing: %+v", tt.name, object.Spec)
		}
	}
}
