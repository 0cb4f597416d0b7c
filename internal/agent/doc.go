// Package agent is what Muster does on a node of a cluster, beside its kubelet:
// it is the DRA driver gpu.muster.dev there. It tells the API server which GPUs
// the node has, and has containers see exactly those of their claim, and know
// their part of them. Packages below it do the rest: codevolume has volumes with code,
// datavolume volumes with data (inline has the CSI driver that both share), fetcher fetches
// code and data in a process without rights, and hearing reports the progress of pods to
// the manager.
//
// Vocabulary: to publish is to name the node's GPUs in ResourceSlices. To prepare
// a claim is to write down what it has of which GPU (its record) and to describe
// to the container runtime what its containers get: device files, libraries of
// the driver and variables, as a file of the Container Device Interface (CDI).
// To unprepare is to remove both. A record stays until its claim is unprepared,
// whatever happens to this process, so that a GPU is not given out beyond what
// it has even where somebody took a claim away by force.
//
// Which claim gets which GPU is decided elsewhere: the agent obeys the claim's
// allocation. It must not know gangs, Placements or the scheduler.
package agent
