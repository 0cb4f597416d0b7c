package node

import (
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/internal/node/network"
)

func TestIsolated(t *testing.T) {
	if ok, why := network.Available(); !ok {
		t.Skip(why)
	}
	state := t.TempDir()
	pods, err := network.Open(t.Context(), network.Options{ServiceCIDR: netip.MustParsePrefix("10.251.0.0/16"), StateDir: state, RunDir: filepath.Join(state, "run")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Destroy(); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, func(c *Config) { c.Tier, c.Network = Isolated, pods })
	w.create(newPod("alone", `
		test "$(hostname)" = alone && test "$MUSTER_ROOT" = /muster && test "$PWD" = /muster &&
		grep -q "nameserver" /etc/resolv.conf && grep -q alone /etc/hosts && test $$$$ -lt 10 &&
		echo x > /data/x && df /data | grep -q tmpfs && echo last words > /dev/termination-log &&
		while ! test -f /muster/end; do sleep 0.02; done`).with(func(p *corev1.Pod) {
		size := resource.MustParse("1Mi")
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}
	}))
	w.create(newPod("finds", `while ! test -f /muster/end; do sleep 0.02; done`).with(func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
	pod := w.await("alone", "start", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	if ip := net.ParseIP(pod.Status.PodIP); ip == nil || ip.IsLoopback() || pod.Status.PodIP == w.node.config.HostIP {
		t.Errorf("pod IP %s", pod.Status.PodIP)
	}
	host := w.await("finds", "start", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	if host.Status.PodIP != w.node.config.HostIP {
		t.Errorf("the pod on the host's network has %s", host.Status.PodIP)
	}
	for _, name := range []string{"alone", "finds"} {
		touch(t, filepath.Join(w.dir(name), "root", "end"))
	}
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
