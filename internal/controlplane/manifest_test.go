package controlplane

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestForeignDefinitionsStay leaves alone a definition of kubeflow.org that
// somebody else made, and changes one that was made here.
func TestForeignDefinitionsStay(t *testing.T) {
	all, err := furniture()
	if err != nil {
		t.Fatal(err)
	}
	var door manifest
	for _, m := range all {
		own := m.object.GetName() != "tfjobs.kubeflow.org" && m.object.GetName() != "pytorchjobs.kubeflow.org"
		if m.yields == own {
			t.Errorf("%s yields: %v", m.object.GetName(), m.yields)
		}
		if m.object.GetName() == "tfjobs.kubeflow.org" {
			door = m
		}
	}
	for name, tt := range map[string]struct {
		annotations map[string]string
		writes      bool
	}{
		"another's":             {nil, false},
		"of an earlier release": {map[string]string{annotationManifest: "0123"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			there := &unstructured.Unstructured{}
			there.SetGroupVersionKind(schema.GroupVersionKind{Group: crdGroup, Version: "v1", Kind: crdKind})
			there.SetName(door.object.GetName())
			there.SetAnnotations(tt.annotations)
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{crdResource: crdKind + "List"}, there)
			wrote := false
			client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				wrote = true
				return true, nil, errWritten // ends the installation
			})
			err := install(t.Context(), client, door)
			if wrote != tt.writes || (err != nil) != tt.writes {
				t.Errorf("it is written: %v, want %v; %v", wrote, tt.writes, err)
			}
		})
	}
}

var errWritten = apierrors.NewBadRequest("that it was written is all that is asked")
