package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

func amounts(pairs ...string) v1alpha1.ResourceAmounts {
	out := v1alpha1.ResourceAmounts{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestSpec(t *testing.T) {
	off, weight, seconds := false, int32(3), int64(90)
	object := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "ocr"}, Spec: v1alpha1.QueueSpec{
		Parent: "vision", Guaranteed: amounts("gpu", "8", "A100", "500m", "cpu", "64", "Memory", "1Gi"), Limit: amounts("gpu", "1E", "A100", "-1E"),
		LendingLimit: amounts("memory", "1E"), Weight: &weight, Borrowing: v1alpha1.BorrowingNever, UserFairness: &off, Stopped: true,
		Preemption: &v1alpha1.QueuePreemption{Reclaim: v1alpha1.ReclaimLowerPriority, MinRunSeconds: &seconds},
	}}
	want := queue.Spec{
		Name: "ocr", Parent: "vision", Guaranteed: queue.Amounts{"gpu": 8000, "A100": 500, "cpu": 64_000, "Memory": 1 << 30},
		Limit: queue.Amounts{"gpu": queue.MaxAmount + 1, "A100": -queue.MaxAmount}, LendingLimit: queue.Amounts{"memory": 1e18},
		Weight: 3, NoBorrowing: true, NoUserFairness: true, Stopped: true, Reclaim: queue.ReclaimLowerPriority, MinRunTime: 90e9,
	}
	if diff := cmp.Diff(want, Spec(object)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]queue.Spec{{Weight: 1}}, Specs([]v1alpha1.Queue{{}})); diff != "" {
		t.Errorf("nothing said (-want +got):\n%s", diff)
	}
}

func TestQuantities(t *testing.T) {
	tree, _ := queue.Build(nil, queue.Options{Models: []string{"A100"}})
	v := queue.Vector{64_500, 512 << 30, 2000, 0}
	got := map[string]string{}
	for name, quantity := range Quantities(tree.Classes(), func(c queue.Class) int64 { return v[c] }) {
		got[name] = quantity.String()
	}
	if diff := cmp.Diff(map[string]string{"cpu": "64500m", "memory": "512Gi", "gpu": "2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
