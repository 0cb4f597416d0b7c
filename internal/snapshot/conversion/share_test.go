package conversion

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

func quantity(text string) *resource.Quantity {
	if text == "" {
		return nil
	}
	q := resource.MustParse(text)
	return &q
}

func TestWants(t *testing.T) {
	for _, c := range []struct {
		name, gpus, memory string
		want               int32
		share              scheduling.Share
		says               string
	}{
		{"nothing", "", "", 0, scheduling.Share{}, ""},
		{"whole", "2", "", 2, scheduling.Share{}, ""},
		{"a whole in thousandths", "1000m", "", 1, scheduling.Share{}, ""},
		{"none", "0", "", 0, scheduling.Share{}, ""},
		{"a share", "250m", "", 0, scheduling.Share{Milli: 250}, ""},
		{"the least", "1m", "", 0, scheduling.Share{Milli: 1}, ""},
		{"memory", "", "8Gi", 0, scheduling.Share{MiB: 8192}, ""},
		{"memory, rounded up", "", "1M", 0, scheduling.Share{MiB: 1}, ""},
		{"both", "250m", "8Gi", 0, scheduling.Share{Milli: 250, MiB: 8192}, ""},
		{"one and a half", "1500m", "", 0, scheduling.Share{}, "a share is below one GPU"},
		{"whole and memory", "1", "8Gi", 0, scheduling.Share{}, "gpuMemory is memory of one GPU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gpus, share, says := Wants(&v1alpha1.GangRole{GPUs: quantity(c.gpus), GPUMemory: quantity(c.memory)})
			if c.says != "" {
				if !strings.Contains(says, c.says) {
					t.Errorf("says %q, want %q", says, c.says)
				}
				return
			}
			if gpus != c.want || share != c.share || says != "" {
				t.Errorf("got %d, %+v, %q", gpus, share, says)
			}
		})
	}
}
