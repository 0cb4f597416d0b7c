// Package reading brings the data that jobs read to the machine that they run on,
// before they ask for GPUs.
//
// Vocabulary:
//
//   - A request is what one job wants to read. What its branches and tags mean is
//     resolved once; the commits go into the job's status, and what is there already
//     is what counts.
//   - Without a cache a request is ready once it is known what it reads: where nodes
//     fetch themselves, once a job has its place.
//   - From when it is resolved on until the job's status names it, a lease keeps a
//     commit from being collected; from then on it is the status that does (see
//     [dataset.Everything]). The same holds for the cache: a request holds what it
//     fetched until the status names it, see [InUse].
//
// It must not know what a job is for, nor where it runs.
package reading
