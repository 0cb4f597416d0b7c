// Package ondemand is the program that serves, in a container beside the members', what
// a pod reads as it asks for it: data that is not fetched before.
//
// Vocabulary: a desk is the folder by which it reaches the agent of its node, with two
// sockets. On the one it is handed the devices of the pod's mounts, each with the part of
// a commit that it shows ([Attached]); the agent has mounted them, and this program
// serves them (internal/data/mount). On the other it asks for packs and commits, which
// the agent has from the manager's door. It is ready once it serves all: then a file
// says so, and the members' containers are started.
//
// So it needs no right, no network and nothing of its image. It lives as long as its pod,
// an agent that is started anew finds nothing to mend, and its memory counts as the
// pod's. Where it is killed, whoever reads is told that the mount is not connected.
//
// It must not know Kubernetes, who reads, or what the agent knows of the pod.
package ondemand
