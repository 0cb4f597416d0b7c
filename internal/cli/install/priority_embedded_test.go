//go:build embedded

package install_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// systemPriorities tries the fields for a priority class that are not in a template of pods
// nor beside it.
func systemPriorities(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	const class = "system-node-critical"
	for name, text := range map[string]string{
		"stage of a pipeline": `{apiVersion: muster.dev/v1alpha1, kind: Pipeline, metadata: {name: a, namespace: lab},
			spec: {queue: vision, stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {priorityClassName: CLASS, roles: [{name: worker, command: [a]}]}}]}}`,
		"stage of a run": `{apiVersion: muster.dev/v1alpha1, kind: PipelineRun, metadata: {name: a, namespace: lab},
			spec: {queue: vision, pipeline: p, identity: a, stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {priorityClassName: CLASS, roles: [{name: worker, command: [a]}]}}]}}`,
		"policy of a TFJob": `{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: a, namespace: lab},
			spec: {runPolicy: {schedulingPolicy: {queue: vision, priorityClass: CLASS}}, tfReplicaSpecs: {Worker: {replicas: 1, template: ` + plainTemplate + `}}}}`,
		"policy of a PyTorchJob": `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a, namespace: lab},
			spec: {runPolicy: {schedulingPolicy: {queue: vision, priorityClass: CLASS}}, pytorchReplicaSpecs: {Master: {replicas: 1, template: ` + plainTemplate + `}}}}`,
	} {
		for class, says := range map[string]string{class: isPriority, "system-cluster-critical": isPriority, "high": ""} {
			t.Run(name+", "+class, func(t *testing.T) {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "CLASS", class)), &o.Object); err != nil {
					t.Fatal(err)
				}
				policyCase{as: bob, object: o, says: says}.try(t, server)
			})
		}
	}
	scheduled := func(namespace, scheduler string) client.Object {
		return inNamespace(namespace, pod(func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.PriorityClassName = scheduler, class }))
	}
	for name, c := range map[string]policyCase{
		"a pod for Muster":        {object: scheduled("free", v1alpha1.SchedulerName), says: "may not have a priority class that begins with system-"},
		"a pod for another":       {object: scheduled("free", "default-scheduler")},
		"a pod of the cluster's":  {object: scheduled("kube-system", v1alpha1.SchedulerName)},
		"Muster's own, for nodes": {object: scheduled(v1alpha1.SystemNamespace, v1alpha1.SchedulerName)},
	} {
		t.Run(name, func(t *testing.T) { c.try(t, server) })
	}
}
