package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
)

// definition is a CRD with one served version and one that is not.
func definition(name, kind string, established bool) *unstructured.Unstructured {
	status := "False"
	if established {
		status = "True"
	}
	plural, group, _ := strings.Cut(name, ".")
	crd := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "names": map[string]any{"kind": kind, "plural": plural, "shortNames": []any{"x"}},
			"versions": []any{map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v0", "served": false}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": status}}},
	}}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: crdGroup, Version: "v1", Kind: crdKind})
	return crd
}

// late is a server whose discovery learns of kinds one after the other. Each question for
// the aggregated document is a step.
type late struct {
	steps atomic.Int64
	// aggregated and single are the kinds of example.org/v1 after each step; the last ones
	// stay.
	aggregated, single [][]string
}

func at(all [][]string, step int64) []string { return all[min(int(step), len(all))-1] }

// ServeHTTP implements [http.Handler].
func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/api", "/apis":
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		list := &apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"}}
		if r.URL.Path == "/apis" {
			version := apidiscovery.APIVersionDiscovery{Version: "v1"}
			for _, kind := range at(l.aggregated, l.steps.Add(1)) {
				version.Resources = append(version.Resources, apidiscovery.APIResourceDiscovery{
					Resource: strings.ToLower(kind) + "s", ResponseKind: &metav1.GroupVersionKind{Group: "example.org", Version: "v1", Kind: kind},
				})
			}
			list.Items = []apidiscovery.APIGroupDiscovery{{ObjectMeta: metav1.ObjectMeta{Name: "example.org"}, Versions: []apidiscovery.APIVersionDiscovery{version}}}
		}
		answer = list
	case "/apis/example.org/v1":
		w.Header().Set("Content-Type", "application/json")
		list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "example.org/v1"}
		for _, kind := range at(l.single, l.steps.Load()) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind})
		}
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	text, err := json.Marshal(answer)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		panic(fmt.Sprint(r.URL, ": ", err))
	}
}

// TestReadyMeansFound: a kind that is served and that discovery does not have yet is
// waited for, in both documents; one of others that is not served is not.
func TestReadyMeansFound(t *testing.T) {
	none, one, both := []string{"Other"}, []string{"Other", "Apple"}, []string{"Apple", "Pear"}
	for name, c := range map[string]struct {
		aggregated, single [][]string
		steps              int64
	}{
		"all are there":                 {[][]string{both}, [][]string{both}, 1},
		"the aggregated one is late":    {[][]string{none, one, both}, [][]string{both}, 3},
		"that of the group is late":     {[][]string{both}, [][]string{none, none, one, both}, 4},
		"an API server that is started": {[][]string{{}, both}, [][]string{{}, {}, both}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			server := &late{aggregated: c.aggregated, single: c.single}
			listening := httptest.NewServer(server)
			defer listening.Close()
			var manifests []manifest
			there := []runtime.Object{definition("apples.example.org", "Apple", true), definition("pears.example.org", "Pear", true), definition("plums.example.org", "Plum", false)}
			for _, crd := range append(there, definition("gone.example.org", "Gone", true)) {
				manifests = append(manifests, manifest{object: crd.(*unstructured.Unstructured), resource: crdResource})
			}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{crdResource: crdKind + "List"}, there...)
			if err := awaitDiscovered(t.Context(), &rest.Config{Host: listening.URL}, client, manifests); err != nil {
				t.Fatal(err)
			}
			if steps := server.steps.Load(); steps != c.steps {
				t.Errorf("it was asked %d times, want %d", steps, c.steps)
			}
		})
	}
}
