package node

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/rig"
)

// openNetwork opens a pod network on the tests' own machine, which goes with
// the test. Without root the test is skipped.
func openNetwork(t *testing.T) *network.Network {
	t.Helper()
	if !rig.Alone() {
		t.Skip("a pod network needs root")
	}
	pods, err := network.Open(t.Context(), network.Options{ServiceCIDR: netip.MustParsePrefix("10.251.0.0/16"), StateDir: filepath.Join(t.TempDir(), "network")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return pods
}

// eachTier runs a test with a node of each tier.
func eachTier(t *testing.T, edit func(*Config), test func(t *testing.T, w *world)) {
	t.Run("plain", func(t *testing.T) { test(t, newWorld(t, edit)) })
	t.Run("isolated", func(t *testing.T) {
		pods := openNetwork(t)
		test(t, newWorld(t, func(c *Config) {
			c.Tier, c.Network = Isolated, pods
			if edit != nil {
				edit(c)
			}
		}))
	})
}

func TestIsolated(t *testing.T) {
	pods := openNetwork(t)
	w := newWorld(t, func(c *Config) { c.Tier, c.Network = Isolated, pods })
	ends := rig.NewPipe(t)
	outside, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	w.create(newPod("alone", `
		test "$(hostname)" = alone && test "$MUSTER_ROOT" = /muster && test "$PWD" = /muster &&
		grep -q "nameserver" /etc/resolv.conf && grep -q alone /etc/hosts &&
		in="$(readlink /proc/$$/ns/pid)" && test "$in" != "`+outside+`" &&
		echo x > /data/x && df /data | grep -q tmpfs && echo last words > /dev/termination-log &&
		`+ends.Await()).with(func(p *corev1.Pod) {
		size := resource.MustParse("1Mi")
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}
	}))
	w.create(newPod("finds", ends.Await()).with(func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
	pod := w.await("alone", "start", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	if ip := net.ParseIP(pod.Status.PodIP); ip == nil || ip.IsLoopback() || pod.Status.PodIP == w.node.config.HostIP {
		t.Errorf("pod IP %s", pod.Status.PodIP)
	}
	host := w.await("finds", "start", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	if host.Status.PodIP != w.node.config.HostIP {
		t.Errorf("the pod on the host's network has %s", host.Status.PodIP)
	}
	ends.Open()
	ends.Open()
	pod = w.await("alone", "end", ended)
	if last := pod.Status.ContainerStatuses[0].State.Terminated; pod.Status.Phase != corev1.PodSucceeded || last.Message != "last words\n" {
		t.Errorf("got %s %+v", pod.Status.Phase, last)
	}
	w.await("finds", "end", ended)
	for _, name := range []string{"alone", "finds"} {
		w.terminate(name, 0)
		w.awaitGone(name)
	}
}

// TestAddressesOfNobody: the data folder was deleted and made anew, and the
// network has pods that nobody knows.
func TestAddressesOfNobody(t *testing.T) {
	pods := openNetwork(t)
	for _, uid := range []string{"empty", "inhabited"} {
		if _, err := pods.AddPod(uid); err != nil {
			t.Fatal(err)
		}
	}
	end := sleepIn(t, filepath.Join("/run/muster", pods.Bridge(), "netns", "inhabited"))
	w := newWorld(t, func(c *Config) { c.Tier, c.Network = Isolated, pods })
	if left := pods.Pods(); len(left) != 1 || left[0].UID != "inhabited" {
		t.Errorf("the network still has the pods %v, want the one that something runs in", left)
	}
	w.stop()
	end()
	w.start()
	if left := pods.Pods(); len(left) != 0 {
		t.Errorf("the network still has the pods %v", left)
	}
}
