// Package pipeline owns what a pipeline means: which stages there are and in what
// order, which datums a stage has, what each of them is keyed by, what of them has
// to be computed after a change, what the stage's output is made of, and why. It
// decides; others compute, wait and write. docs/design/open/005-pipelines.md says
// why it is as it is.
//
// Vocabulary:
//
//   - A [Graph] is a checked pipeline: [Stage]s in an order in which each comes
//     after those that it reads. A [Source] is one input of a stage with its
//     [glob.Pattern]; cross, join, group and union combine them.
//   - A [Datum] is what a stage computes at once: files and folders of its sources,
//     under a name that says which.
//   - A [Recipe] is everything beside files that a result depends on. A [Key] is a
//     recipe and the files of a datum: two datums of one key have one result.
//   - Results are a dataset of their own: below [ResultPath] of a key lie the
//     files that were made, the log and a [Record].
//   - A stage's [State] is what its last run was made of: a tree with each datum's
//     files, and the inputs as they were. A [Plan] is what differs from it.
//
// It must not know Kubernetes' API server, clocks, networks, nor how a datum is
// computed.
package pipeline
