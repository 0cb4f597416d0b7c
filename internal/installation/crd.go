package installation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// losses are the fields that the CRD on the cluster has and ours has not, as
// version and path: "v1alpha1 spec.roles.gpus". With ours in its place the
// server would drop what objects say there.
func losses(there, ours *unstructured.Unstructured) []string {
	had, have := schemas(there), schemas(ours)
	var lost []string
	for version, before := range had {
		after, served := have[version]
		if !served {
			lost = append(lost, version)
			continue
		}
		for _, field := range fields(before, "") {
			if !known(after, field) {
				lost = append(lost, version+" "+field)
			}
		}
	}
	slices.Sort(lost)
	return lost
}

// schemas are a CRD's schemas by version.
func schemas(crd *unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			continue
		}
		name, _ := version["name"].(string)
		schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		out[name] = schema
	}
	return out
}

// fields lists the properties of a schema, those of list items and map values
// included, as paths.
func fields(schema map[string]any, path string) []string {
	var out []string
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		property, ok := p.(map[string]any)
		if !ok {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		out = append(append(out, at), fields(property, at)...)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if nested, ok := schema[inner].(map[string]any); ok {
			out = append(out, fields(nested, path)...)
		}
	}
	return out
}

// known reports whether a schema keeps a field.
func known(schema map[string]any, path string) bool {
	if keeps, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool); keeps {
		return true
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if nested, ok := schema[inner].(map[string]any); ok && known(nested, path) {
			return true
		}
	}
	name, rest, more := strings.Cut(path, ".")
	properties, _ := schema["properties"].(map[string]any)
	property, ok := properties[name].(map[string]any)
	if !ok || !more {
		return ok
	}
	return known(property, rest)
}

// established reports whether the server serves a CRD's kind.
func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
}
