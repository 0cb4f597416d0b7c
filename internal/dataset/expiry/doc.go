// Package expiry removes what no pipeline has needed for long: results, and the datasets of
// states of pipelines that are gone.
//
// Vocabulary:
//
//   - A pipeline is gone if there is neither a Pipeline of its name nor a run of it on its way.
//   - The dataset of states of such a pipeline is abandoned since the sweep that noticed it, which
//     an annotation of the dataset says. Until it has been abandoned for as long as results are
//     kept, its results stay; then they go by their last use, and after them the dataset.
//
// It must not know who runs pipelines, nor how a run is planned.
package expiry
