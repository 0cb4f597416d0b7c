// Package hearing is how what a program says of its progress gets from a pod on a
// kubelet to the API: what internal/node does where Muster runs pods itself.
//
// Vocabulary: a listener, in the agent of a node, looks into the folders in which
// pods of that node report, and sends bulletins to the manager's door. A scribe,
// in the manager behind that door, writes them onto the pods. So an agent needs
// no right on pods, and can be believed of those on its own node alone.
//
// A pod's folder is an empty volume of its own, so a pod needs no agent to start,
// and whoever writes there needs no right. What is read there is not trusted
// (internal/node/progress).
//
// What the driver of data (datavolume) says of a pod's volumes comes by the same door,
// and is written by the same scribe.
//
// Package hearing must not know gangs or jobs, nor what is done with what it
// writes.
package hearing
