package limits_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/limits"
	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// TestOneAnswer: the doctor, a pod's refusal and the documents agree, in both tiers.
func TestOneAnswer(t *testing.T) {
	quantities := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("200Mi"), corev1.ResourceCPU: resource.MustParse("1500m")}
	ctr := corev1.Container{Name: "main", Image: "muster.dev/host", Command: []string{"true"}, Resources: corev1.ResourceRequirements{Limits: quantities, Requests: quantities}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{ctr}}}
	for _, c := range []struct {
		name string
		kept limits.Kept
		says string
		is   *contract.Limits
	}{
		{"kept", limits.Of(true, ""), "memory and CPU limits are kept", &contract.Limits{MemoryBytes: 200 << 20, CPUMillis: 1500, CPURequestMillis: 1500}},
		{"not kept", limits.Of(false, "read-only file system"), "memory and CPU limits cannot be kept: read-only file system", nil},
		{"not kept, for no reason", limits.Of(false, ""), "memory and CPU limits cannot be kept: control groups cannot be made", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.HasPrefix(c.kept.String(), c.says) || (c.kept.Advice() == "") != (c.is != nil) {
				t.Errorf("the doctor says %q, and advises %q", c.kept, c.kept.Advice())
			}
			if diff := cmp.Diff(c.is, c.kept.For(&ctr)); diff != "" {
				t.Error(diff)
			}
			for _, isolated := range []bool{false, true} {
				refusal := admission.Admit(pod, admission.Facts{Isolated: isolated, Root: true, Limits: c.kept})
				switch {
				case c.is != nil && refusal != nil:
					t.Errorf("isolated %v: it is refused: %s", isolated, refusal.Message)
				case c.is == nil && (refusal == nil || !strings.Contains(refusal.Message, c.kept.Not)):
					t.Errorf("isolated %v: it is refused with %+v, which does not say %q", isolated, refusal, c.kept.Not)
				}
			}
		})
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "tiers.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), limits.Documented) {
		t.Errorf("docs/tiers.md does not say: %s", limits.Documented)
	}
}
