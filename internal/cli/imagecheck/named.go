package imagecheck

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds are the kinds whose objects become pods, by group.
var kinds = map[string][]string{
	"":             {"Pod"},
	"apps":         {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"batch":        {"CronJob", "Job"},
	"kubeflow.org": {"PyTorchJob", "TFJob"},
	"muster.dev":   {"Gang", "TrainingJob"},
}

// deepest is the number of levels within spec that are read: a CronJob's containers are in the
// seventh.
const deepest = 12

// Named returns the images that the pods of an object run, in the order of their fields' names; none
// for kinds without pods.
func Named(object *unstructured.Unstructured) []string {
	kind := schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind())
	if !slices.Contains(kinds[kind.Group], kind.Kind) {
		return nil
	}
	spec, _ := object.Object["spec"].(map[string]any)
	return named(spec, deepest)
}

// named returns the images of containers and environments anywhere in a tree.
func named(tree map[string]any, depth int) (out []string) {
	if depth == 0 {
		return nil
	}
	add := func(holder any) {
		fields, _ := holder.(map[string]any)
		if image, _ := fields["image"].(string); image != "" {
			out = append(out, image)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		switch value := tree[key].(type) {
		case map[string]any:
			if key == "environment" {
				add(value)
			}
			out = append(out, named(value, depth-1)...)
		case []any:
			for _, item := range value {
				if key == "containers" || key == "initContainers" {
					add(item)
				} else if fields, isMap := item.(map[string]any); isMap {
					out = append(out, named(fields, depth-1)...)
				}
			}
		}
	}
	return out
}
