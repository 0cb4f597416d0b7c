//go:build embedded

package statuswriter_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/node/statuswriter"
)

// TestAddressOfAPodChanges: a real API server takes the status of a pod whose address, and whose
// machine's address, is another one. That happens if the isolation tier of the machine changes
// while the pod runs, or its network.
func TestAddressOfAPodChanges(t *testing.T) {
	plane := planetest.Start(t)
	api, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	pods := api.CoreV1().Pods("default")
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "moves"}, Spec: corev1.PodSpec{
		NodeName: "box", Containers: []corev1.Container{{Name: "main", Image: "none"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	writer := statuswriter.New(statuswriter.Writer{
		Pods: pods, Name: pod.Name, UID: pod.UID, Acked: func(corev1.PodStatus) { done <- nil }, Absent: func() {},
		Failed: func(err error) { done <- err },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); writer.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for _, at := range []struct{ host, pod string }{{"192.0.2.1", "192.0.2.1"}, {"192.0.2.1", "10.96.0.7"}, {"192.0.2.9", "10.96.0.7"}, {"192.0.2.9", "192.0.2.9"}} {
		writer.Put(corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: at.host, HostIPs: []corev1.HostIP{{IP: at.host}}, PodIP: at.pod, PodIPs: []corev1.PodIP{{IP: at.pod}},
		})
		if err := <-done; err != nil {
			t.Fatalf("%v: %v", at, err)
		}
		got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Status; s.PodIP != at.pod || len(s.PodIPs) != 1 || s.HostIP != at.host || len(s.HostIPs) != 1 {
			t.Errorf("%+v: %v %v %v %v", at, s.PodIP, s.PodIPs, s.HostIP, s.HostIPs)
		}
	}
}
