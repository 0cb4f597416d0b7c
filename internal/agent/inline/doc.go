// Package inline is what all CSI drivers of Muster on a node have in common: they
// have volumes that pods name themselves, without PersistentVolumes, and nothing but
// the node's half of CSI.
//
// Vocabulary: a driver is registered with the kubelet by a socket in the folder in
// which kubelets look for plugins, and answers on another. A handler is what makes a
// driver that one: it shows pods what they name, and forgets volumes that are gone. To
// show is a bind mount, to hide its end. An errand is something that takes long, is
// done once however many volumes want it, and goes on when the kubelet, which asks for
// a volume again and again, gives up for now.
//
// It must not know what is in volumes, nor the API server.
package inline
