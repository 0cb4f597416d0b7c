// Package retention says what of the things that are kept by content may go:
// code snapshots and built environments.
//
// Vocabulary:
//
//   - A reference is any place that names a thing by its hash: a job, a pod, the
//     record of what a node runs. What is referred to is live.
//   - A thing is reserved when it is stored, built, or found for somebody who is
//     about to refer to it. Until the grace period after that is over it stays,
//     whoever asks: the reference may be on its way.
//   - A thing is used when it is reserved, when something starts from it, and
//     whenever it is seen to be live. What nobody refers to stays for the
//     retention after its last use.
//
// It only judges: who removes, and how, is for the stores to know. It knows
// neither files, Kubernetes nor jobs.
package retention
