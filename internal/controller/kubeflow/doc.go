// Package kubeflow is the door for manifests that people already have: a TFJob
// or a PyTorchJob of kubeflow.org/v1 becomes a TrainingJob of the same name,
// and is told in its own terms how that one fares.
//
// It owns what a field of those kinds means in Muster's words, what is refused
// because it cannot be honoured, the Services that carry each replica's name,
// the conditions and counts that are mirrored back, and whose job it is where
// the training operator runs, too.
//
// Vocabulary:
//
//   - A door is one of the kinds. It is open where Muster runs the kind's jobs
//     that name no manager.
//   - A job is claimed once its status says, in a write that nobody overtook,
//     that Muster runs it. Nothing is made of a job before.
//   - A note names a field that is read and has no effect.
//
// Everything is decided by one pure function, decide. The package does not know
// gangs, nodes or the scheduler, and pods only by their labels.
package kubeflow
