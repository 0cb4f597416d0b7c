package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// The names of the control plane's programs.
const (
	etcd        = "etcd"
	apiServer   = "kube-apiserver"
	controllers = "kube-controller-manager"
	scheduler   = "kube-scheduler"
	coreDNS     = "coredns"
)

// identities issues everything that the control plane shows to others.
func (c *Cluster) identities() error {
	a := c.authority
	for _, who := range []identity{
		{
			name: apiServer, user: apiServer, ips: []string{"127.0.0.1", serviceIP, c.site.control()},
			dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		},
		{name: "kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		{name: "front-proxy", user: "front-proxy-client"},
	} {
		if err := a.issue(who); err != nil {
			return err
		}
	}
	for name, who := range map[string]identity{
		"admin": {user: "admin", groups: []string{"system:masters"}}, controllers: {user: "system:" + controllers},
		scheduler: {user: "system:" + scheduler}, "kube-proxy": {user: "system:kube-proxy"}, coreDNS: {user: coreDNS, groups: []string{"system:masters"}},
	} {
		who.name = name
		if _, err := a.kubeconfig(c.server(), who); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) server() string { return fmt.Sprintf("https://%s:%d", c.site.control(), securePort) }

// startAPI starts etcd and the API server and waits until that is ready.
func (c *Cluster) startAPI(ctx context.Context) error {
	if err := c.launch(c.control, etcd, append([]string{
		"--data-dir=" + c.EtcdFolder(), "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--log-level=warn",
	}, c.options.Args[etcd]...)); err != nil {
		return err
	}
	if err := c.launch(c.control, apiServer, c.apiServerFlags()); err != nil {
		return err
	}
	return c.await(ctx, "the API server to be ready", c.apiReady, etcd, apiServer)
}

func (c *Cluster) apiServerFlags() []string {
	file := c.authority.file
	flags := []string{
		"--etcd-servers=http://127.0.0.1:2379", fmt.Sprintf("--secure-port=%d", securePort),
		"--advertise-address=" + c.site.control(), "--service-cluster-ip-range=" + services,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file=" + file("ca.crt"), "--tls-cert-file=" + file(apiServer+".crt"), "--tls-private-key-file=" + file(apiServer+".key"),
		"--kubelet-client-certificate=" + file("kubelet-client.crt"), "--kubelet-client-key=" + file("kubelet-client.key"),
		"--kubelet-certificate-authority=" + file("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + file("service-account.key"), "--service-account-key-file=" + file("service-account.key"),
		"--requestheader-client-ca-file=" + file("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file("front-proxy.crt"), "--proxy-client-key-file=" + file("front-proxy.key"), "--enable-aggregator-routing=true",
	}
	return append(append(flags, c.gates()...), c.options.Args[apiServer]...)
}

// startManagers starts what works through the API server.
func (c *Cluster) startManagers() error {
	file := c.authority.file
	if !c.options.WithoutControllers {
		flags := []string{
			"--kubeconfig=" + file(controllers+".kubeconfig"), "--leader-elect=false", "--use-service-account-credentials=true",
			"--service-account-private-key-file=" + file("service-account.key"), "--root-ca-file=" + file("ca.crt"),
			"--cluster-signing-cert-file=" + file("ca.crt"), "--cluster-signing-key-file=" + file("ca.key"), "--bind-address=127.0.0.1",
			// At the 20 requests a second of its default it takes 6 seconds
			// to start.
			"--kube-api-qps=1000", "--kube-api-burst=2000",
			"--flex-volume-plugin-dir=" + c.path("volume-plugins"), // else it makes a folder in /usr
		}
		if err := c.launch(c.control, controllers, slices.Concat(flags, c.gates(), c.options.Args[controllers])); err != nil {
			return err
		}
	}
	if c.options.Scheduler {
		flags := []string{"--kubeconfig=" + file(scheduler+".kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1"}
		if err := c.launch(c.control, scheduler, slices.Concat(flags, c.gates(), c.options.Args[scheduler])); err != nil {
			return err
		}
	}
	if c.options.WithoutServices || len(c.options.Nodes) == 0 {
		return nil
	}
	return c.startDNS()
}

// startDNS answers for the names of Services, at the control plane's address.
func (c *Cluster) startDNS() error {
	path := c.path("Corefile")
	content := fmt.Sprintf(`.:53 {
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %s
    pods insecure
    ttl 1
  }
}
`, c.authority.file(coreDNS+".kubeconfig"))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of CoreDNS: %w", err)
	}
	return c.launch(c.control, coreDNS, []string{"-conf", path})
}

// gates are the feature gates as a flag.
func (c *Cluster) gates() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.options.FeatureGates)) {
		all = append(all, fmt.Sprintf("%s=%t", name, c.options.FeatureGates[name]))
	}
	if all == nil {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(all, ",")}
}

// launch starts a program for the first time and remembers how. The program collects garbage as
// often as this process.
func (c *Cluster) launch(on *machine, name string, flags []string) error {
	full := name
	if on != c.control {
		full = on.name + "/" + name
	}
	path := c.bin + "/" + name
	line := append([]string{path}, flags...)
	if _, err := os.Lstat(path); err != nil {
		// One of those that are one program.
		line = append([]string{c.bin + "/kubernetes", name}, flags...)
	}
	run := wire.Run{Name: full, Line: line, Env: []string{"PATH=" + searchPath(c.bin), "HOME=/root", "GOGC=" + os.Getenv("GOGC")}, Log: c.LogFile(full)}
	c.mu.Lock()
	c.programs[full] = program{on: on, run: run}
	c.mu.Unlock()
	return on.start(run)
}

// LogFile is the file that a program's output is in.
func (c *Cluster) LogFile(program string) string {
	return filepath.Join(c.path("logs"), strings.ReplaceAll(program, "/", "-")+".log")
}
