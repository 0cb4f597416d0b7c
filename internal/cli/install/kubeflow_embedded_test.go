//go:build embedded

package install_test

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// foreign is a TFJob or PyTorchJob of one member, with labels and, in its
// scheduling policy, a queue.
func foreign(kind string, labels map[string]string, queue string) *unstructured.Unstructured {
	field, role, container := "tfReplicaSpecs", "Worker", "tensorflow"
	if kind == kubeflowv1.KindPyTorchJob {
		field, role, container = "pytorchReplicaSpecs", "Master", "pytorch"
	}
	spec := map[string]any{field: map[string]any{role: map[string]any{
		"replicas": int64(1),
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": container, "image": "busybox"}}}},
	}}}
	if queue != "" {
		spec["runPolicy"] = map[string]any{"schedulingPolicy": map[string]any{"queue": queue}}
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetAPIVersion(kubeflowv1.GroupVersion.String())
	out.SetKind(kind)
	out.SetNamespace("team")
	out.SetName("a")
	out.SetLabels(labels)
	return out
}

// foreignJobs are what people do with jobs of other kinds, of which the queue and
// the submitter are as little theirs to choose as those of a TrainingJob.
func foreignJobs(kind string) map[string]policyCase {
	own := func(queue string) map[string]string { return map[string]string{kubeflowv1.LabelQueue: queue} }
	kueue := map[string]string{kubeflowv1.LabelKueueQueue: "nlp"}
	both := map[string]string{kubeflowv1.LabelQueue: "vision", kubeflowv1.LabelKueueQueue: "nlp"}
	label := func(labels map[string]string) func(client.Object) {
		return func(o client.Object) { o.SetLabels(labels) }
	}
	annotate := func(annotations map[string]string) func(client.Object) {
		return func(o client.Object) {
			all := maps.Clone(o.GetAnnotations())
			if all == nil {
				all = map[string]string{}
			}
			maps.Copy(all, annotations)
			o.SetAnnotations(all)
		}
	}
	const nlp = "you (ada@example.com) may not use queue nlp in namespace team"
	return map[string]policyCase{
		"one's own queue":                     {as: ada, object: foreign(kind, own("vision"), "")},
		"one's own in the policy":             {as: ada, object: foreign(kind, nil, "vision")},
		"another's":                           {as: ada, object: foreign(kind, own("nlp"), ""), says: nlp},
		"another's by Kueue's label":          {as: ada, object: foreign(kind, kueue, ""), says: nlp},
		"another's in the policy":             {as: ada, object: foreign(kind, nil, "nlp"), says: nlp},
		"another's, and one's own in vain":    {as: ada, object: foreign(kind, own("nlp"), "vision"), says: nlp},
		"one's own, and another's in vain":    {as: ada, object: foreign(kind, both, "nlp")},
		"an empty label, and another's":       {as: ada, object: foreign(kind, own(""), "nlp"), says: nlp},
		"none, which is default":              {as: ada, object: foreign(kind, nil, ""), says: "may not use queue default"},
		"moved to another's":                  {as: ada, object: foreign(kind, own("vision"), ""), change: label(own("nlp")), says: nlp},
		"the label taken away":                {as: ada, object: foreign(kind, own("vision"), "nlp"), change: label(nil), says: nlp},
		"otherwise changed":                   {as: ada, object: foreign(kind, own("vision"), ""), change: annotate(map[string]string{"a": "b"})},
		"another's name afterwards":           {as: ada, object: foreign(kind, own("vision"), ""), change: annotate(map[string]string{v1alpha1.AnnotationSubmitter: "eve@example.com"}), says: "cannot be changed"},
		"the name taken away":                 {as: ada, object: foreign(kind, own("vision"), ""), change: func(o client.Object) { o.SetAnnotations(nil) }, says: "cannot be changed"},
		"an administrator in another's queue": {object: foreign(kind, own("nlp"), "")},
		"the TrainingJob that it becomes, by Muster": {
			as: managerAccount, groups: []string{"system:masters"}, object: madeFor(job("nlp", map[string]string{v1alpha1.AnnotationSubmitter: ada, v1alpha1.AnnotationAuthenticated: "true"})),
		},
	}
}

// foreignStamps looks at what is written on jobs of other kinds: who submitted
// them, whatever they say, and the queue of their namespace if they name none.
func foreignStamps(t *testing.T, server *rehearsal.Server, kind string) {
	lies := foreign(kind, map[string]string{kubeflowv1.LabelQueue: "vision"}, "")
	lies.SetAnnotations(map[string]string{v1alpha1.AnnotationSubmitter: "eve@example.com", v1alpha1.AnnotationAuthenticated: "true"})
	if err := (policyCase{as: ada, object: lies}).attempt(t, server); err != nil {
		t.Fatal(err)
	}
	if got := lies.GetAnnotations(); got[v1alpha1.AnnotationSubmitter] != ada || got[v1alpha1.AnnotationAuthenticated] != "true" {
		t.Errorf("who said to be eve is stamped %v", got)
	}
	for name, c := range map[string]struct {
		labels map[string]string
		policy string
		want   string
	}{
		"none":              {nil, "", "vision"},
		"none, but a label": {map[string]string{"a": "b"}, "", "vision"},
		"one by a label":    {map[string]string{kubeflowv1.LabelQueue: "nlp"}, "", "nlp"},
		"one by Kueue's":    {map[string]string{kubeflowv1.LabelKueueQueue: "nlp"}, "", ""},
		"one in its policy": {nil, "nlp", ""},
	} {
		o := foreign(kind, c.labels, c.policy)
		o.SetNamespace("queued")
		if err := (policyCase{object: o}).attempt(t, server); err != nil {
			t.Errorf("a job that names %s: %v", name, err)
		} else if got := o.GetLabels()[kubeflowv1.LabelQueue]; got != c.want {
			t.Errorf("a job that names %s has the label %q, want %q", name, got, c.want)
		}
	}
}
