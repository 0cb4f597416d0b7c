//go:build cluster

package cluster_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/test/cluster"
)

// process is one that cannot be confused with a later one of the same number.
type process struct {
	pid     int
	start   string
	command string
}

// descendants are all processes below one, whatever namespace they are in.
func descendants(t *testing.T, of int) []process {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]process{}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		line := string(data)
		name := line[strings.IndexByte(line, '(')+1 : strings.LastIndexByte(line, ')')]
		fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		parent, _ := strconv.Atoi(fields[1])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		children[parent] = append(children[parent], process{pid: pid, start: fields[19], command: name})
	}
	var all []process
	for next := children[of]; len(next) > 0; {
		first := next[0]
		all = append(all, first)
		next = append(next[1:], children[first.pid]...)
	}
	return all
}

func (p process) lives() bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return false
	}
	line := string(data)
	return strings.Fields(line[strings.LastIndexByte(line, ')')+1:])[19] == p.start
}

func living(processes []process) []process {
	var left []process
	for _, p := range processes {
		if p.lives() {
			left = append(left, p)
		}
	}
	return left
}

// traces are what is on this machine of the cluster with that folder, but for
// processes.
func traces(t *testing.T, folder, link string) []string {
	t.Helper()
	var found []string
	if _, err := os.Stat(folder); err == nil {
		found = append(found, folder)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(folder) + "-*")
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, groups...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, folder) {
			found = append(found, "mount "+line)
		}
	}
	if _, err := netlink.LinkByName(link); err == nil {
		found = append(found, "link "+link)
	}
	return found
}

// place is the folder of a cluster and the name of its link, from what anybody
// can see of it.
func place(t *testing.T, kubeconfig, server string) (folder, link string) {
	t.Helper()
	site := strings.Split(strings.TrimPrefix(server, "https://"), ".")[1]
	return filepath.Dir(filepath.Dir(kubeconfig)), "muster-c" + site
}

// usual are the places where Kubernetes keeps things on a machine that is not a
// pretended one.
func usual() []string {
	var there []string
	for _, path := range []string{
		"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log/pods", "/run/containerd", "/run/netns",
		"/opt/containerd", "/opt/cni", "/etc/kubernetes", "/etc/cni", "/usr/libexec/kubernetes",
	} {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}

func TestStopLeavesNothing(t *testing.T) {
	places := usual()
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: []cluster.NodeOptions{{GPUs: 1}}, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() }) // for when the test fails half-way
	create(t, c, pod("long", "node-1", 1, "/bin/sh", "-c", "exec sleep 1000"))
	await(t, c, "long", "running", phase(corev1.PodRunning))
	folder, link := place(t, c.Kubeconfig(), c.Config().Host)
	before := descendants(t, os.Getpid())
	// Two first processes, eight programs, a shim, and two in the pod.
	if len(before) < 13 {
		t.Fatalf("only %d processes belong to a cluster with a running pod: %v", len(before), before)
	}
	if got := traces(t, folder, link); len(got) < 3 {
		t.Fatalf("a running cluster is expected to have a folder, control groups and a link, and has %v", got)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := living(before); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left := traces(t, folder, link); len(left) > 0 {
		t.Errorf("left on the machine: %v", left)
	}
	if diff := cmp.Diff(places, usual()); diff != "" {
		t.Errorf("folders of this machine (-before +after):\n%s", diff)
	}
}

// owner tells a copy of this test binary that it owns a cluster until it is
// killed.
const owner = "MUSTER_TEST_CLUSTER_OWNER"

func TestKilledOwnerTakesItsClusterAlong(t *testing.T) {
	if os.Getenv(owner) != "" {
		own(t)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), owner+"=1")
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	var kubeconfig, server string
	for lines := bufio.NewScanner(output); server == "" && lines.Scan(); {
		t.Log(lines.Text())
		_, _ = fmt.Sscanf(lines.Text(), "cluster %s %s", &kubeconfig, &server)
	}
	if server == "" {
		t.Fatal("the owner ended before its cluster was ready")
	}
	folder, link := place(t, kubeconfig, server)
	before := descendants(t, child.Process.Pid)
	if len(before) < 13 {
		t.Fatalf("only %d processes belong to a cluster with a running pod: %v", len(before), before)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	// Nobody is left to say when the kernel is done.
	for deadline := time.Now().Add(30 * time.Second); len(living(before)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes outlive the owner: %v", living(before))
		}
	}
	// The next start sweeps what is no process.
	start(t, cluster.Options{WithoutControllers: true})
	if left := traces(t, folder, link); len(left) > 0 && left[0] != "link "+link {
		t.Errorf("left on the machine: %v", left)
	}
}

// own starts a cluster, says where it is, and waits to be killed.
func own(t *testing.T) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: []cluster.NodeOptions{{GPUs: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	create(t, c, pod("long", "node-1", 1, "/bin/sh", "-c", "exec sleep 1000"))
	await(t, c, "long", "running", phase(corev1.PodRunning))
	fmt.Println("cluster", c.Kubeconfig(), c.Config().Host)
	select {}
}
