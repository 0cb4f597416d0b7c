package node

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
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
		if _, err := pods.AddPod(uid, network.Tenant{}); err != nil {
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

// TestTemporaryFolders: each start of a container begins with empty temporary folders that no other
// container sees, and nothing of them stays.
func TestTemporaryFolders(t *testing.T) {
	eachTier(t, nil, func(t *testing.T, w *world) {
		isolated := w.node.config.Tier == Isolated
		for _, name := range []string{"left", "a", "root", "x"} { // of the programs below
			if _, err := os.Lstat("/tmp/" + name); err == nil {
				t.Fatalf("/tmp/%s is there, which this test looks for", name)
			}
		}
		// The folders are empty but for the test's own program, which stays visible, can be written to,
		// and are told to workers.
		const script = `set -e
			for d in $(echo $MUSTER_TEMPORARY_FOLDERS | tr : ' '); do
				test -z "$(ls -A $d | grep -v go-build)"; echo left > $d/left; mkdir -p $d/a/b; chmod 0 $d/a; ln -s / $d/root
			done`
		w.create(newPod("again", script+`; test -e "$MUSTER_ROOT/once" || { touch "$MUSTER_ROOT/once"; exit 1; }`).restart(corev1.RestartPolicyOnFailure))
		ends := rig.NewPipe(t)
		w.create(newPod("both", script+`; `+ends.Await()).with(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container("before", script)}
			p.Spec.Containers = append(p.Spec.Containers, container("beside", script+`; `+ends.Await()))
		}))
		w.await("both", "start", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		w.create(newPod("told", `test "$MUSTER_TEMPORARY_FOLDERS" = "$WANT" && touch "${TMPDIR:-/tmp}/x"`).with(func(p *corev1.Pod) {
			want := "/tmp:/var/tmp:/dev/shm"
			if !isolated {
				want = w.node.scratch.Folder(types.UID(w.id+"-told")) + "/0"
			}
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "WANT", Value: want}}
		}))
		ends.Open()
		ends.Open()
		for _, name := range []string{"again", "both", "told"} {
			if pod := w.await(name, "end", ended); pod.Status.Phase != corev1.PodSucceeded {
				t.Errorf("%s: %+v", name, pod.Status.ContainerStatuses)
			}
			w.terminate(name, 0)
			w.awaitGone(name)
			w.awaitRemoved(name)
		}
		if left, err := os.ReadDir(filepath.Join(w.data, "tmp")); err != nil || len(left) > 0 {
			t.Errorf("%v stays (%v)", left, err)
		}
		for _, name := range []string{"left", "a", "root", "x"} {
			if _, err := os.Lstat("/tmp/" + name); err == nil {
				t.Errorf("a container wrote /tmp/%s of the machine", name)
			}
		}
	})
}

// TestTemporaryFoldersOfVolumes: a pod's mount at a temporary folder takes its place.
func TestTemporaryFoldersOfVolumes(t *testing.T) {
	pods := openNetwork(t)
	w := newWorld(t, func(c *Config) { c.Tier, c.Network = Isolated, pods })
	host := t.TempDir()
	w.create(newPod("mounts", `test "$MUSTER_TEMPORARY_FOLDERS" = /var/tmp && echo x > /tmp/x && echo y > /var/tmp/in/y && df /dev/shm | grep -q tmpfs`).with(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}},
			{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/tmp"}, {Name: "host", MountPath: "/var/tmp/in"}, {Name: "shm", MountPath: "/dev/shm"}}
	}))
	if pod := w.await("mounts", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got %+v", pod.Status)
	}
	w.terminate("mounts", 0)
	w.awaitGone("mounts")
	w.awaitRemoved("mounts")
	for _, name := range []string{"x", "y"} {
		if _, err := os.Stat(filepath.Join(host, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestDataFolderInTemporaryFolder: a Muster whose data folder is in /tmp works, and so do Python
// environments there.
func TestDataFolderInTemporaryFolder(t *testing.T) {
	pods := openNetwork(t)
	top, err := os.MkdirTemp("/tmp", "muster-test-") //nolint:usetesting // tests have temporary files elsewhere
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	environment := filepath.Join(top, "environment")
	for _, dir := range []string{filepath.Join(top, "data"), filepath.Join(environment, "bin"), filepath.Join(top, "base", "bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"environment/pyvenv.cfg": "home = " + top + "/base/bin\n", "environment/bin/prog": "#!/bin/sh\n. " + top + "/base/bin/lib\n", "base/bin/lib": "exit 7\n", "secret": ""} {
		if err := os.WriteFile(filepath.Join(top, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, func(c *Config) {
		c.Tier, c.Network, c.DataDir, c.Images = Isolated, pods, filepath.Join(top, "data"), configuration.Images{"own:*": {Environment: environment}}
		r, err := process.New(process.Options{Root: filepath.Join(c.DataDir, "pods"), Shim: rig.Shim(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		c.Runtime = r
	})
	w.create(newPod("works", `test ! -e `+top+`/secret && test -w `+top+`/data && prog`).with(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "own:1" }))
	pod := w.await("works", "end", ended)
	if last := pod.Status.ContainerStatuses[0].State.Terminated; last == nil || last.ExitCode != 7 {
		t.Errorf("got %+v", pod.Status.ContainerStatuses)
	}
}

// TestHome: a user without an account has a home folder of its own.
func TestHome(t *testing.T) {
	pods := openNetwork(t)
	w := newWorld(t, func(c *Config) { c.Tier, c.Network = Isolated, pods })
	const unknown = 54321
	as := func(uid int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid} }
	}
	w.create(newPod("stranger", `test "$HOME" = /muster/home/main && touch ~/x && test "$(stat -c '%a %u' ~)" = "700 54321" && touch /tmp/x`).with(as(unknown)))
	w.create(newPod("chooses", `test "$HOME" = /var/tmp && test ! -e /muster/home`).with(as(unknown)).with(func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "HOME", Value: "/var/tmp"}}
	}))
	w.create(newPod("known", `test "$HOME" = "$(getent passwd 65534 | cut -d: -f6)"`).with(as(65534)))
	w.create(newPod("own", `test "$HOME" = "`+os.Getenv("HOME")+`"`))
	// A container of the pod cannot have another's home made elsewhere.
	w.create(newPod("link", `true`).with(as(unknown)).with(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{container("before", `rm -rf /muster/home; ln -s /muster/elsewhere /muster/home`)}
		zero := int64(0)
		p.Spec.InitContainers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &zero}
	}))
	for _, name := range []string{"stranger", "chooses", "known", "own"} {
		if pod := w.await(name, "end", ended); pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%s: %+v", name, pod.Status.ContainerStatuses)
		}
	}
	pod := w.await("link", "wait", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == reasonConfigError
	})
	if message := pod.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(message, "home is a symbolic link") {
		t.Errorf("it waits for %q", message)
	}
}
