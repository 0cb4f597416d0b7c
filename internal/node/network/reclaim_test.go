package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

// holdEnv makes the test process hold a network with the pod "a" open, whose
// StateDir is the value, until its input ends.
const holdEnv = "MUSTER_NETWORK_TEST_HOLD"

func holdNetwork(state string) error {
	n, err := Open(context.Background(), Options{ServiceCIDR: otherServices, StateDir: state})
	if err != nil {
		return err
	}
	pod, err := n.AddPod("a", Tenant{})
	if err != nil {
		return err
	}
	fmt.Println(n.Bridge(), n.PodCIDR(), pod.NetNS)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, n.Destroy())
}

var otherServices = netip.MustParsePrefix("10.201.0.0/16")

// other is a network that another process holds open.
type other struct {
	state, bridge, netNS string
	podCIDR              netip.Prefix
	process              *exec.Cmd
	stdin                io.Closer
}

// openOther starts a process that holds a network open. The machine is as
// before once the test has ended.
func openOther(t *testing.T) *other {
	t.Helper()
	machine(t)
	o := &other{state: filepath.Join(t.TempDir(), "home", "network")}
	o.process = exec.Command("/proc/self/exe")
	o.process.Env = append(os.Environ(), holdEnv+"="+o.state)
	o.process.Stderr = os.Stderr
	o.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := o.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.stdin = stdin
	stdout, err := o.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.stdin.Close(); _ = o.process.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal("the other process says nothing: ", err)
	}
	var cidr string
	if _, err := fmt.Sscan(line, &o.bridge, &cidr, &o.netNS); err != nil {
		t.Fatal(err)
	}
	o.podCIDR = netip.MustParsePrefix(cidr)
	return o
}

// kill ends the process as kill -9 does.
func (o *other) kill(t *testing.T) {
	t.Helper()
	if err := o.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.process.Wait()
}

// deleteHome deletes the data folder.
func (o *other) deleteHome(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(filepath.Dir(o.state)); err != nil {
		t.Fatal(err)
	}
}

// clear removes what the other left, once nothing needs it.
func (o *other) clear(t *testing.T) {
	t.Helper()
	o.deleteHome(t)
	if err := open(t, testOptions(t)).Destroy(); err != nil {
		t.Error(err)
	}
	if _, err := netlink.LinkByName(o.bridge); err == nil {
		t.Errorf("the bridge %s is still there", o.bridge)
	}
}

// settle starts a process in the pod, which lives until the function is called.
func settle(t *testing.T, netNS string) (end func()) {
	t.Helper()
	command := exec.Command("sleep", "600")
	inside(t, netNS, command.Start)
	end = func() { _ = command.Process.Kill(); _ = command.Wait() }
	t.Cleanup(end)
	return end
}

func TestReclaimAfterTheFolderWasDeleted(t *testing.T) {
	machine(t)
	before := machineState(t)
	o := openOther(t)
	o.kill(t)
	o.deleteHome(t)

	n := open(t, testOptions(t))
	if n.Bridge() != o.bridge || n.PodCIDR() != o.podCIDR {
		t.Errorf("the network is %s %v; want %s %v, which are free again", n.Bridge(), n.PodCIDR(), o.bridge, o.podCIDR)
	}
	if len(n.Pods()) != 0 {
		t.Errorf("it has the pods %v of another", n.Pods())
	}
	if isNamespace(o.netNS) {
		t.Error("the other's pod still has its namespace")
	}
	if notes := strings.Join(n.Notes(), " "); !strings.Contains(notes, filepath.Dir(o.state)+" left it") {
		t.Errorf("the notes %q do not tell", notes)
	}
	if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, machineState(t)); diff != "" {
		t.Errorf("the machine before and after (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(defaultRunDir(o.bridge)); err == nil {
		t.Error("the other's folder in /run is still there")
	}
}

func TestReclaimLeavesTheLivingAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		// leave says what becomes of the other; its result ends what it began.
		leave func(t *testing.T, o *other) (end func())
		note  string
	}{
		{"open", func(*testing.T, *other) func() { return nil }, ""},
		{"open, its folder deleted", func(t *testing.T, o *other) func() { o.deleteHome(t); return nil }, ""},
		{"killed, its folder there", func(t *testing.T, o *other) func() { o.kill(t); return nil }, ""},
		{"killed, its folder deleted, a pod alive", func(t *testing.T, o *other) func() {
			end := settle(t, o.netNS)
			o.kill(t)
			o.deleteHome(t)
			return end
		}, "processes of its pods run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := openOther(t)
			end := c.leave(t, o)
			n := open(t, testOptions(t))
			if n.Bridge() == o.bridge || n.PodCIDR().Overlaps(o.podCIDR) {
				t.Errorf("the network is %s %v, the other's %s %v", n.Bridge(), n.PodCIDR(), o.bridge, o.podCIDR)
			}
			b := add(t, n, "b")
			serve(t, "", o.podCIDR.Addr().Next().String()+":7070", "gateway")
			says(t, o.netNS, o.podCIDR.Addr().Next().String()+":7070", "gateway")
			serve(t, b.NetNS, "0.0.0.0:8080", "b")
			says(t, "", fmt.Sprint(b.IP, ":8080"), "b")
			if notes := strings.Join(n.Notes(), " "); !strings.Contains(notes, c.note) || (c.note == "" && strings.Contains(notes, o.bridge)) {
				t.Errorf("the notes are %q, want %q", notes, c.note)
			}
			if err := n.Destroy(); err != nil {
				t.Fatal(err)
			}
			if end != nil {
				end()
			}
			if o.process.ProcessState == nil {
				o.kill(t)
			}
			o.clear(t)
		})
	}
}

func TestReclaimOfANetworkWithoutPods(t *testing.T) {
	options := testOptions(t)
	left, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	other := testOptions(t)
	other.ServiceCIDR = otherServices
	n := open(t, other)
	if n.Bridge() != left.Bridge() {
		t.Errorf("the network is %s; want %s, which nothing uses", n.Bridge(), left.Bridge())
	}
	// The former owner starts again, beside it.
	again := open(t, options)
	if again.Bridge() == n.Bridge() {
		t.Errorf("both have %s", n.Bridge())
	}
}

// TestOpenWhileAnotherReclaims: the owner of a network that is just being
// cleared away waits for that, and starts afresh.
func TestOpenWhileAnotherReclaims(t *testing.T) {
	options := testOptions(t)
	left, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	ns, err := currentNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.close() })
	reclaims := &Network{host: ns}
	held, err := claimBridge(left.Bridge())
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	var n *Network
	go func() {
		var err error
		n, err = Open(t.Context(), options)
		opened <- err
	}()
	bridge, err := netlink.LinkByName(left.Bridge())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(reclaims.removeEstate(estate{bridge: bridge}), held.Release()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if err := n.Destroy(); err != nil {
		t.Error(err)
	}
}

func TestReclaimLeavesForeignPortsAlone(t *testing.T) {
	o := openOther(t)
	bridge, err := netlink.LinkByName(o.bridge)
	if err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = "mine0", bridge.Attrs().Index
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "mine1"}); err != nil {
		t.Fatal(err)
	}
	o.kill(t)
	o.deleteHome(t)
	if n := open(t, testOptions(t)); n.Bridge() == o.bridge {
		t.Errorf("the bridge %s was taken from the interface on it", o.bridge)
	} else if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	mine, err := netlink.LinkByName("mine0")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(mine); err != nil {
		t.Fatal(err)
	}
	o.clear(t)
}

// TestReclaimKeepsTheUplinkGuarded: what forwards because of a network that
// is gone must not forward for everybody.
func TestReclaimKeepsTheUplinkGuarded(t *testing.T) {
	out := world(t)
	const forwarding = "ipv4/conf/up0/forwarding"
	if err := setSysctl(forwarding, "0"); err != nil {
		t.Fatal(err)
	}
	o := openOther(t)
	if value, _ := getSysctl(forwarding); value != "1" {
		t.Fatal("the other network does not forward")
	}
	serve(t, out, "0.0.0.0:80", "world")

	// Beside it: both reach the world, and closing one leaves it to the other.
	n := open(t, testOptions(t))
	a := add(t, n, "a")
	says(t, o.netNS, "198.51.100.1:80", "world 198.51.100.2")
	says(t, a.NetNS, "198.51.100.1:80", "world 198.51.100.2")
	if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	says(t, o.netNS, "198.51.100.1:80", "world 198.51.100.2")

	// After it.
	o.kill(t)
	o.deleteHome(t)
	n = open(t, testOptions(t))
	a = add(t, n, "a")
	says(t, a.NetNS, "198.51.100.1:80", "world 198.51.100.2")
	office := neighbourMachine(t, "lan0", "203.0.113.1/24", "203.0.113.2/24")
	serve(t, office, "0.0.0.0:80", "office")
	inside(t, office, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("198.51.100.0/24")), Gw: netip.MustParseAddr("203.0.113.1").AsSlice()})
	})
	inside(t, out, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("203.0.113.0/24")), Gw: netip.MustParseAddr("198.51.100.2").AsSlice()})
	})
	unreachable(t, out, "203.0.113.2:80")
	if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	if value, _ := getSysctl(forwarding); value != "0" {
		t.Error("forwarding of the uplink stayed on")
	}
}
