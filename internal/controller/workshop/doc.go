// Package workshop has environments built in images: from the requirements of a
// job or of a stage of a pipeline, in a pod of the image that it runs in, before
// anything asks for a GPU. On a cluster that is always so, on one machine where an
// image is named.
//
// Vocabulary:
//
//   - A key names an environment by what it is made of: the normalised
//     requirements, the image and the version of Python that was asked for. Equal
//     keys of one namespace are one environment. On one machine it counts what the
//     image is, and the namespace; on a cluster how the image is called.
//   - A build is a pod, named after its key, so that there is never more than one
//     for a key, whoever asks, and however many managers there are. It belongs to
//     the jobs and runs that asked, and goes with the last of them.
//   - The workbench is the folder that the build writes to: a volume of the agent
//     on the build's node, which brings what was made to the store once the pod has
//     ended. On one machine it is a bench, where what was made stays.
//
// Whatever a build needs it is given in its pod: it has no credentials and asks
// nobody. What the installer said of a failure is in the pod's status.
//
// One pure function, decide, says from the pod and the clock how a build stands,
// and what is to be done about its pod. The package must not know gangs, nodes or
// where environments are kept.
package workshop
