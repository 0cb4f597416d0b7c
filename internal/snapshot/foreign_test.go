package snapshot

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodsOfOtherSchedulers: where no other scheduler runs, a pod that names one does not
// wait in silence. Beside other schedulers it is theirs.
func TestPodsOfOtherSchedulers(t *testing.T) {
	for _, c := range []struct {
		name, scheduler string
		alone, mine     bool
		says            string
	}{
		{"Muster's", "muster", true, true, ""},
		{"Muster's, beside others", "muster", false, true, ""},
		{"the default one", "default-scheduler", true, true, ""},
		{"the default one, beside others", "default-scheduler", false, false, ""},
		{"another", "volcano", true, true, "no scheduler volcano runs here"},
		{"another, beside others", "volcano", false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: c.scheduler}}
			if mine := foreign(pod, c.alone); mine != c.mine {
				t.Fatalf("mine: %t, want %t", mine, c.mine)
			}
			if !c.mine {
				return
			}
			if says := (world{}).podRequest(pod).Unsupported; (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
				t.Errorf("says %q, want %q", says, c.says)
			}
		})
	}
}
