package scheduling

import (
	"strings"
	"testing"
)

// TestMisnamedGPU: a reason about a resource that no node has, and that looks like GPUs, says how to
// ask for GPUs.
func TestMisnamedGPU(t *testing.T) {
	for name, c := range map[string]struct {
		reason TooLarge
		hint   string
	}{
		"Muster's domain":          {TooLarge{Resource: "muster.dev/gpu", Role: "pod", Need: 1, Single: true}, "has 0 muster.dev/gpu. GPUs are asked for as nvidia.com/gpu"},
		"several letters more":     {TooLarge{Resource: "nvidia.com/GPUs", Need: 1, Single: true}, "GPUs are asked for as nvidia.com/gpu"},
		"on a cluster":             {TooLarge{Resource: "muster.dev/gpu", Role: "pod", Need: 1}, "such as nvidia.com/gpu"},
		"real GPUs":                {TooLarge{Resource: resourceGPU, Role: "pod", Need: 1, Single: true}, ""},
		"a resource that there is": {TooLarge{Resource: "example.com/gpu-slot", Need: 3, Have: 2}, ""},
		"no GPUs":                  {TooLarge{Resource: "example.com/fpga", Need: 3, Single: true}, ""},
	} {
		text := c.reason.Render(nil)
		if says := strings.Contains(text, "nvidia.com/gpu"); says != (c.hint != "") || !strings.Contains(text, c.hint) {
			t.Errorf("%s: %q, want %q", name, text, c.hint)
		}
	}
}
