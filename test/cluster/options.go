package cluster

import "fmt"

// Options say what is started. The zero value is an API server with all its
// controllers, no scheduler and no node.
type Options struct {
	// Nodes are real: each has a kubelet and a container runtime.
	Nodes []NodeOptions
	// Scheduler starts upstream's kube-scheduler. Without it only pods that
	// name a node run.
	Scheduler bool
	// WithoutControllers leaves the controller manager out: no garbage
	// collection, no service accounts, no Jobs.
	WithoutControllers bool
	// WithoutServices leaves out what only Services and their names need:
	// kube-proxy on each node, and CoreDNS.
	WithoutServices bool
	// FeatureGates are passed to every Kubernetes program.
	FeatureGates map[string]bool
	// Args are further flags of a program, by its name: kube-apiserver,
	// kube-controller-manager, kube-scheduler, kubelet, etcd.
	Args map[string][]string
	// Log is told how far the start is; nil: nobody.
	Log func(format string, args ...any)
}

// NodeOptions say what a node is like.
type NodeOptions struct {
	// Name as the API knows it. Default: node-<number from 1>.
	Name string
	// GPUs are pretend ones, nvidia.com/gpu, offered by a device plugin.
	GPUs int
	// Product and MemoryMiB are what the node's labels say of a GPU:
	// nvidia.com/gpu.product, nvidia.com/gpu.memory. Defaults: Pretend-80GB,
	// 81920.
	Product   string
	MemoryMiB int
	// Labels are further labels of the node.
	Labels map[string]string
	// Images are imported before the node is ready, beside [Busybox].
	Images []Image
}

func (o Options) complete() (Options, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	nodes := make([]NodeOptions, len(o.Nodes))
	taken := map[string]bool{}
	for i, node := range o.Nodes {
		if node.Name == "" {
			node.Name = fmt.Sprintf("node-%d", i+1)
		}
		if taken[node.Name] {
			return o, fmt.Errorf("two nodes are named %q: give each its own name, or none", node.Name)
		}
		taken[node.Name] = true
		if node.Product == "" {
			node.Product = "Pretend-80GB"
		}
		if node.MemoryMiB == 0 {
			node.MemoryMiB = 81920
		}
		nodes[i] = node
	}
	// The third byte of the pods' addresses is the node's number.
	if len(nodes) > 200 {
		return o, fmt.Errorf("%d nodes: at most 200 real ones have addresses here; make the others Node objects", len(nodes))
	}
	o.Nodes = nodes
	return o, nil
}
