package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// The names of a node's programs, behind the node's name and a slash.
const (
	containerd   = "containerd"
	kubelet      = "kubelet"
	kubeProxy    = "kube-proxy"
	devicePlugin = "deviceplugin"
)

// Node is a machine with a kubelet.
type Node struct {
	NodeOptions
	// Address is the node's own, which the control plane and the other nodes
	// reach.
	Address string
	number  int
	cluster *Cluster
	machine *machine
}

// kernel is what a kubelet would set on the whole host; it is shown that it is
// set already.
var kernel = map[string]string{
	"/proc/sys/vm/overcommit_memory": "1", "/proc/sys/vm/panic_on_oom": "0",
	"/proc/sys/kernel/panic": "10", "/proc/sys/kernel/panic_on_oops": "1",
	"/proc/sys/kernel/keys/root_maxkeys": "1000000", "/proc/sys/kernel/keys/root_maxbytes": "25000000",
}

func (n *Node) path(elements ...string) string {
	return n.cluster.path(append([]string{"nodes", n.Name}, elements...)...)
}

// group is the control group below which the node's pods are.
func (n *Node) group() string { return n.cluster.folder.id + "-" + n.Name }

// boot starts the node's machine, still without a network.
func (n *Node) boot() error {
	setup := wire.Setup{
		Hostname: n.Name,
		Binds:    []wire.Bind{{From: n.path("lib"), To: "/var/lib"}, {From: n.path("log"), To: "/var/log"}},
		Tmpfs:    []string{"/run"},
		Sysctls:  map[string]string{"/proc/sys/net/ipv4/ip_forward": "1"},
	}
	for _, folder := range []string{"lib", "log", "kernel", "cni"} {
		if err := os.MkdirAll(n.path(folder), 0o755); err != nil {
			return fmt.Errorf("making the folders of %s: %w", n.Name, err)
		}
	}
	for path, value := range kernel {
		mask := n.path("kernel", filepath.Base(path))
		if err := os.WriteFile(mask, []byte(value+"\n"), 0o600); err != nil {
			return fmt.Errorf("writing what %s sees of the kernel: %w", n.Name, err)
		}
		setup.Masks = append(setup.Masks, wire.Bind{From: mask, To: path})
	}
	if err := makeGroup(n.group()); err != nil {
		return err
	}
	machine, err := boot(n.cluster.bin, n.cluster.LogFile(n.Name+"/machine"), setup)
	if err != nil {
		return err
	}
	n.machine = machine
	return n.cluster.folder.remember(machine)
}

// startRuntime starts containerd and imports the node's images.
func (n *Node) startRuntime(ctx context.Context, images []string) error {
	if err := n.write("containerd.toml", n.containerdConfig()); err != nil {
		return err
	}
	if err := n.write("registry/_default/hosts.toml", registryConfig); err != nil {
		return err
	}
	if err := n.write("cni/10-bridge.conflist", n.networkConfig()); err != nil {
		return err
	}
	if err := n.cluster.launch(n.machine, containerd, []string{"--config", n.path("containerd.toml")}); err != nil {
		return err
	}
	if err := n.cluster.await(ctx, "containerd of "+n.Name, n.runtimeAnswers, n.Name+"/"+containerd); err != nil {
		return err
	}
	for _, image := range images {
		if err := n.importFile(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

// startKubelet starts the kubelet and what else needs the API.
func (n *Node) startKubelet() error {
	c := n.cluster
	server := identity{name: n.Name, user: "system:node:" + n.Name, groups: []string{"system:nodes"}, ips: []string{n.Address, "127.0.0.1"}, dns: []string{n.Name}}
	kubeconfig, err := c.authority.kubeconfig(c.server(), server)
	if err != nil {
		return err
	}
	if err := n.write("resolv.conf", ""); err != nil {
		return err
	}
	if err := n.write("kubelet.yaml", n.kubeletConfig()); err != nil {
		return err
	}
	flags := []string{"--config=" + n.path("kubelet.yaml"), "--kubeconfig=" + kubeconfig, "--node-ip=" + n.Address, "--node-labels=" + n.labels()}
	if err := c.launch(n.machine, kubelet, append(flags, c.options.Args[kubelet]...)); err != nil {
		return err
	}
	if n.GPUs > 0 {
		if err := c.launch(n.machine, devicePlugin, []string{"--count=" + strconv.Itoa(n.GPUs), "--unhealthy=" + n.path("unhealthy")}); err != nil {
			return err
		}
	}
	if c.options.WithoutServices {
		return nil
	}
	if err := n.write("kube-proxy.yaml", n.proxyConfig()); err != nil {
		return err
	}
	return c.launch(n.machine, kubeProxy, []string{"--config=" + n.path("kube-proxy.yaml")})
}

func (n *Node) write(name, content string) error {
	err := os.MkdirAll(filepath.Dir(n.path(name)), 0o700)
	if err == nil {
		err = os.WriteFile(n.path(name), []byte(content), 0o600)
	}
	if err != nil {
		return fmt.Errorf("configuring %s: %w", n.Name, err)
	}
	return nil
}

// runtimeSocket is containerd's, as the host sees it.
func (n *Node) runtimeSocket() string {
	return fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", n.machine.pid())
}

func (n *Node) runtimeAnswers(ctx context.Context) error {
	return dial(ctx, "unix", n.runtimeSocket())
}

// kubeletAnswers is true of one that has found its runtime.
func (n *Node) kubeletAnswers(ctx context.Context) error {
	return dial(ctx, "tcp", net.JoinHostPort(n.Address, strconv.Itoa(kubeletPort)))
}

func dial(ctx context.Context, network, address string) error {
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// Command is a program that sees what the node's programs see: files,
// processes and network. It is ended with ctx.
func (n *Node) Command(ctx context.Context, line ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.machine.pid()), "--mount", "--pid", "--net", "--uts", "--ipc", "--"}
	return exec.CommandContext(ctx, "nsenter", append(enter, line...)...)
}

// Import makes an image known to the node.
func (n *Node) Import(ctx context.Context, image Image) error {
	path, err := image.cached(n.cluster.imageFolder())
	if err != nil {
		return err
	}
	return n.importFile(ctx, path)
}

func (n *Node) importFile(ctx context.Context, path string) error {
	output, err := n.Command(ctx, n.cluster.bin+"/ctr", "--namespace", "k8s.io", "images", "import", "--local", "--discard-unpacked-layers", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("importing an image on %s: %w\n%s", n.Name, err, output)
	}
	return nil
}

// Vanish ends the node as if its plug were pulled: kubelet, runtime and every
// container at once, without a word. It does not come back.
func (n *Node) Vanish() error { return n.machine.off() }
