package installation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLost(t *testing.T) {
	was := map[string]any{"agent": map[string]any{"create": true, "nodeSelector": map[string]any{"a": "b"}}, "image": map[string]any{"tag": "v1"}, "gpuResources": []any{"x/y"}}
	for name, c := range map[string]struct {
		now  map[string]any
		want []string
	}{
		"nothing is set":      {nil, []string{"agent.create", "agent.nodeSelector.a", "gpuResources", "image.tag"}},
		"the same":            {was, nil},
		"others":              {map[string]any{"agent": map[string]any{"create": false}, "gpuResources": []any{}}, []string{"agent.nodeSelector.a", "image.tag"}},
		"a value for a group": {map[string]any{"agent": nil, "image": map[string]any{"tag": nil}}, []string{"agent.create", "agent.nodeSelector.a", "gpuResources"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Lost(was, c.now); !slices.Equal(got, c.want) {
				t.Errorf("lost: %v, want %v", got, c.want)
			}
		})
	}
}

func TestOver(t *testing.T) {
	under := map[string]any{"agent": map[string]any{"create": true, "cdiDir": "/a"}, "list": []any{1}}
	got := Over(under, map[string]any{"agent": map[string]any{"create": false}, "list": []any{2}, "more": 1})
	want := map[string]any{"agent": map[string]any{"create": false, "cdiDir": "/a"}, "list": []any{2}, "more": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"create": true, "cdiDir": "/a"}, under["agent"]); diff != "" {
		t.Errorf("the values below changed: %s", diff)
	}
	if got := Over(nil, under); !cmp.Equal(got, under) {
		t.Errorf("over nothing: %v", got)
	}
}

// TestSimulatedGPUs: agents understand each value that the schema allows.
func TestSimulatedGPUs(t *testing.T) {
	for text, right := range map[string]bool{
		"": true, "8xA100": true, "2xA100:40Gi": true, "1xa100, 2xH200": true, "1024xT4": true,
		"2A100": false, "A100": false, "2x": false, "2xA100,": false, "0xA100": false, "-1xA100": false, "1xA100:40GB": false, "1xA100:0Gi": false,
		"1025xT4": false, "1000xA100,25xH100": false,
	} {
		_, err := Render(Rendering{Version: "v1", Values: map[string]any{"agent": map[string]any{"create": true, "simulateGPUs": text}}})
		if right && err != nil || !right && (err == nil || !strings.Contains(err.Error(), "simulateGPUs")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRemovalsAreComplete: every kind of the chart is removed by an uninstallation, or stays by
// intent.
func TestRemovalsAreComplete(t *testing.T) {
	values := map[string]any{
		"agent": map[string]any{"create": true}, "store": map[string]any{"persistentVolumeClaim": "store"},
		"autoscaler": map[string]any{"enabled": true}, "data": map[string]any{"gateway": map[string]any{"enabled": true}},
	}
	stay := []string{"Namespace", kindCRD, "Queue"}
	flow := "flowcontrol.apiserver.k8s.io/v1/FlowSchema"
	kinds := map[string]bool{}
	for _, o := range render(t, Rendering{Values: values, Kinds: []string{stamping, flow}}) {
		kinds[o.GetKind()] = true
		if !slices.Contains(stay, o.GetKind()) && !slices.Contains(prunable, o.GroupVersionKind()) {
			t.Errorf("%s stays", Title(o))
		}
	}
	for _, kind := range []string{"FlowSchema", "NetworkPolicy", "CSIDriver"} {
		if !kinds[kind] {
			t.Errorf("no %s is rendered", kind)
		}
	}
}
