// Package pipeline runs pipelines: a commit on a branch that a Pipeline reads
// starts one PipelineRun, and a run takes each of its stages from a plan to a
// commit.
//
// # Vocabulary
//
// A [Pipelines] controller looks at branches and starts runs; a [Runs] controller
// takes runs on. A head is a branch of a dataset and the commit that it is at. A
// stage's work is what of it has to be computed; the foreman gives it out to the
// members of a TrainingJob, which is made once the files of the first datum are
// local, so that nobody holds a GPU before.
//
// What a run has come to is in the API (which stages have ended), in the results
// (which datums are computed) and in the foreman's folder (which are computed and
// not recorded). Killed between any two steps, it goes on from there.
//
// Both decide by pure functions of what they have read. What is decided about a
// pipeline itself is in the package internal/pipeline.
//
// The package must not know the node, the control plane or other controllers, nor
// how a datum is computed.
package pipeline
