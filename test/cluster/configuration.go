package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// containerdConfig is for a machine without CAP_SYS_RESOURCE (lowering
// oom_score_adj is refused there) and with Debian's plugins.
func (n *Node) containerdConfig() string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/containerd/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = %q
`, pauseImage, n.path("registry"), n.path("cni"))
}

// registryConfig sends whoever pulls an image to where nobody listens: it
// fails at once, instead of after looking for names in a network that has
// none.
const registryConfig = `server = "http://127.0.0.1:9"
`

// networkConfig puts the node's pods on one bridge, whose range the other
// nodes have a route to.
func (n *Node) networkConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0", "name": "pods",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, n.cluster.site.pods(n.number))
}

// kubeletConfig is a normal kubelet's, but for what a shared disk and missing
// capabilities of this machine ask for: nothing is evicted or collected because
// the disk that everybody shares is full. It looks each second whether it has
// something to tell of its node, instead of each ten.
func (n *Node) kubeletConfig() string {
	file := n.cluster.authority.file
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %s}
authorization: {mode: Webhook}
tlsCertFile: %s
tlsPrivateKeyFile: %s
port: %d
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
nodeStatusUpdateFrequency: 1s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
volumePluginDir: /var/lib/kubelet/volume-plugins
resolvConf: %s
clusterDomain: cluster.local
evictionHard: {memory.available: 100Mi, nodefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.available: 0%%, imagefs.inodesFree: 0%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
registryPullQPS: 0
eventRecordQPS: 0
`, file("ca.crt"), file(n.Name+".crt"), file(n.Name+".key"), kubeletPort, n.group(), n.path("resolv.conf"))
	if !n.cluster.options.WithoutServices {
		config += "clusterDNS: [" + n.cluster.site.control() + "]\n"
	}
	if gates := n.cluster.options.FeatureGates; len(gates) > 0 {
		config += "featureGates:\n"
		for _, name := range slices.Sorted(maps.Keys(gates)) {
			config += fmt.Sprintf("  %s: %t\n", name, gates[name])
		}
	}
	return config
}

// proxyConfig leaves alone what belongs to the whole host.
func (n *Node) proxyConfig() string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s}
hostnameOverride: %s
mode: iptables
clusterCIDR: %s
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, n.cluster.authority.file("kube-proxy.kubeconfig"), n.Name, n.cluster.site.cidr())
}

// labels are the node's, as the kubelet's flag.
func (n *Node) labels() string {
	all := map[string]string{}
	if n.GPUs > 0 {
		all["nvidia.com/gpu.product"] = n.Product
		all["nvidia.com/gpu.memory"] = fmt.Sprint(n.MemoryMiB)
		all["nvidia.com/gpu.count"] = fmt.Sprint(n.GPUs)
	}
	maps.Copy(all, n.Labels)
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, key+"="+all[key])
	}
	return strings.Join(pairs, ",")
}
