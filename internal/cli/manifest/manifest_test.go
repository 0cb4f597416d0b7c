package manifest

import (
	"strings"
	"testing"
)

// TestRead: documents and items of lists are objects each, with their places and with
// whole numbers as they are written.
func TestRead(t *testing.T) {
	const text = `apiVersion: v1
kind: Job
metadata: {name: a}
spec: {parallelism: 9007199254740993}
---
# nothing
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
- {apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}
`
	documents, err := Read(strings.NewReader(text), []string{"-"})
	if err != nil || len(documents) != 3 {
		t.Fatalf("%d objects: %v", len(documents), err)
	}
	spec, _ := documents[0].Object.Object["spec"].(map[string]any)
	if number, ok := spec["parallelism"].(int64); !ok || number != 9007199254740993 {
		t.Errorf("a whole number is %T %v", spec["parallelism"], spec["parallelism"])
	}
	if want := "standard input, document 2, item 2"; documents[2].At != want {
		t.Errorf("the place is %q, want %q", documents[2].At, want)
	}
	for i, want := range []string{"", "", "generateName"} {
		if err := documents[i].Named(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("object %d: %v", i, err)
		}
	}
}
