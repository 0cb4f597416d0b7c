//go:build embedded

package queue_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestQueues runs the verbs, and the rules of the kind, against a real API
// server.
func TestQueues(t *testing.T) {
	server := rehearsal.Start(t)
	t.Run("verbs", func(t *testing.T) { server.Run(t, verbs) })
	t.Run("rules", func(t *testing.T) { checkRules(t.Context(), t, server.Client) })
}

var verbs = []rehearsal.Step{
	{Args: "queue list", Says: "default  -           -     -         -      0        implied"},
	{Args: "queue create vision --guaranteed cpu=4,memory=1Gi --limit cpu=8 --weight 2", Says: "queue vision created"},
	{Args: "queue create vision", Code: 1, Says: "there is a queue vision already"},
	{Args: "q create ocr --parent vision --guaranteed cpu=2", Says: "queue ocr created"},
	{Args: "queue create maps --parent vison", Code: 3, Says: "did you mean vision?"},
	{Args: "queue create maps --borrowing=false", Code: 1, Says: "borrowing: Never needs guaranteed"},
	{Args: "queue edit ocr --guaranteed cpu=8", Code: 1, Says: "its children are guaranteed"},
	{Args: "queue edit ocr --guaranteed cpu=1 --stopped", Says: "queue ocr changed"},
	{Args: "queue edit ocr --stopped", Says: "queue ocr unchanged"},
	{Args: "queue list -o name", Says: "queue.muster.dev/ocr\nqueue.muster.dev/vision\n"},
	{Args: "queue list -o yaml", Says: "stopped: true"},
	{Args: "queue ls", Says: "└─ ocr   cpu=1"},
	{Args: "queue describe ocr", Says: "Parent         vision"},
	{Args: "get queues", Says: "vision"},
	{Args: "get mq vision", Says: "vision"},
	{Args: "queue delete vision", Code: 1, Says: "ocr is below it"},
	{Args: "queue delete vision ocr", Says: "queue vision deleted\nqueue ocr deleted\n"},
	{Args: "queue move", Code: 2, Says: "move which job?"},
	{Args: "queue move mnist", Code: 2, Says: "move to which queue? Give --to QUEUE"},
	{Args: "queue move mnist --to vison", Code: 3, Says: "there is no queue vison"},
	{Args: "queue move mnist --to default", Code: 3, Says: "mnist"},
	{Args: "queue lits", Code: 2, Says: "did you mean muster queue list?"},
	{Args: "queue delete", Code: 2, Says: "delete which queue?"},
	{Args: "queue edit", Code: 2, Says: "edit which queue?"},
	{Args: "queue describe", Code: 2, Says: "describe which queue?"},
	{Args: "queue list now", Code: 2, Says: "list takes no arguments"},
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
