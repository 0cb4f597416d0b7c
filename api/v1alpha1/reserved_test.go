package v1alpha1

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestReservedInTheCRD: the rules of the API server refuse the keys that [Reserved] refuses. The
// function matches of CEL has the syntax of package regexp.
func TestReservedInTheCRD(t *testing.T) {
	text, err := os.ReadFile("../../charts/muster/crd/muster.dev_trainingjobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	reserved := regexp.MustCompile(`^!self\.exists\(k, k\.matches\('([^']*muster[^']*)'\)\)$`)
	found := map[string]bool{}
	for _, field := range []string{"firstLabels", "indexLabels"} {
		for _, rule := range rulesOf(crd, field) {
			match := reserved.FindStringSubmatch(rule)
			if match == nil {
				continue
			}
			found[field] = true
			refuses := regexp.MustCompile(match[1])
			for _, key := range []string{
				"muster.dev/part", "x.muster.dev/part", "a.b.muster.dev/part", "muster.dev/", ".muster.dev/part",
				"part", "muster.dev", "x.muster.dev", "example.com/part", "notmuster.dev/part", "musterxdev/part",
				"muster.dev.example.com/part", "example.com/muster.dev", "example.com/x.muster.dev",
			} {
				if got := refuses.MatchString(key); got != Reserved(key) {
					t.Errorf("the rule of %s refuses %q: %v, want %v", field, key, got, Reserved(key))
				}
			}
		}
		if !found[field] {
			t.Errorf("the CRD has no rule for reserved keys of %s", field)
		}
	}
}

// rulesOf returns the CEL rules of each field of a name in a schema.
func rulesOf(schema any, name string) (rules []string) {
	switch in := schema.(type) {
	case []any:
		for _, item := range in {
			rules = append(rules, rulesOf(item, name)...)
		}
	case map[string]any:
		if field, ok := in[name].(map[string]any); ok {
			list, _ := field["x-kubernetes-validations"].([]any)
			for _, item := range list {
				if rule, ok := item.(map[string]any)["rule"].(string); ok {
					rules = append(rules, rule)
				}
			}
		}
		for _, item := range in {
			rules = append(rules, rulesOf(item, name)...)
		}
	}
	return rules
}
