// Package expiry removes data that no pipeline has needed for long: results, and the datasets of
// states of pipelines that are gone.
//
// Vocabulary:
//
//   - A pipeline is gone if there is neither a Pipeline of its name nor an unfinished run of it.
//   - The dataset of states of such a pipeline is abandoned since the sweep that noticed it. An
//     annotation of the dataset has that time. Until it has been abandoned for as long as results
//     are kept, its results stay; then they go by their last use, and after them the dataset.
//
// It must not know the owner of pipelines, nor the planning of runs.
package expiry
