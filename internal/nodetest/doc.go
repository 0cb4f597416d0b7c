// Package nodetest simulates nodes and their kubelets, for tests against a real API server.
//
// A simulated node is a Node object that is ready: no process stands behind it. A test writes
// the status of its pods as a kubelet would, or lets [Cluster.Kubelet] do so.
//
// Only tests import it. It must not know the manager or the scheduler.
package nodetest
