// Package cluster is a real Kubernetes on this machine, for tests: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubelets with
// containerd, kube-proxy and CoreDNS, unpatched. [Start] starts it in seconds
// once hack/cluster-deps has built it, [Cluster.Stop] ends it wholly.
//
// Vocabulary: a machine is a set of namespaces (processes, mounts, network,
// host name) with a first process, as if it were a computer. The control plane
// has one, and so has every node; a program is what runs on one of them, called
// by its name ("etcd") on the control plane and by "node/name"
// ("node-1/kubelet") elsewhere. The owner is the process that called Start.
//
// Since a node has its own /var/lib, /run and network, what runs on it finds
// everything at the usual place (/var/lib/kubelet, the port 10250), however
// many nodes there are; and when a machine's first process ends, the kernel
// ends its processes, mounts and links. It ends with the owner, whatever ended
// that. What the kernel does not clean up, folders and control groups, is swept
// by the next Start.
//
// Nothing listens on an address that can be reached from outside. The host and
// the cluster, pods included, reach one another through one link of their own:
// the host is 10.x.0.1, the API server 10.x.0.2.
//
// The package must not know Muster: it is what a user has before installing
// it. It needs root, Linux, and Debian's packages that hack/cluster-deps names.
package cluster
