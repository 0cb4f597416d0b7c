package statuswriter

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// TestStatusPatch: addresses and a reason are replaced, and conditions of others are kept.
func TestStatusPatch(t *testing.T) {
	gate := corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue}
	before := corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodRunning, Reason: "Waits", HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}, Conditions: []corev1.PodCondition{gate},
	}}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "192.0.2.9", HostIPs: []corev1.HostIP{{IP: "192.0.2.9"}},
		PodIP: "10.96.0.7", PodIPs: []corev1.PodIP{{IP: "10.96.0.7"}}, Conditions: []corev1.PodCondition{ready},
	}
	patch, err := statusPatch("uid", status)
	if err != nil {
		t.Fatal(err)
	}
	original, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var after corev1.Pod
	if err := json.Unmarshal(merged, &after); err != nil {
		t.Fatal(err)
	}
	want := status
	want.Conditions = []corev1.PodCondition{ready, gate}
	if diff := cmp.Diff(want, after.Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusPatchWithoutAddresses: a pod that has no address yet sends none.
func TestStatusPatchWithoutAddresses(t *testing.T) {
	patch, err := statusPatch("uid", corev1.PodStatus{Phase: corev1.PodPending})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"uid":"uid"},"status":{"message":null,"phase":"Pending","reason":null}}`; string(patch) != want {
		t.Errorf("%s, want %s", patch, want)
	}
}
