// Package depot owns the code of jobs on a cluster, and the environments that
// were built for them: by namespace, on a shelf.
//
// Vocabulary:
//
//   - A snapshot, its digest, its list and its contents are those of package
//     source. Nothing is shared between namespaces, so that nobody learns from
//     a hash what others have.
//   - An environment is one tar, as package bundle makes it, by its key.
//   - A use is the last time at which somebody asked for a snapshot, or a job
//     named it.
//   - To prune is to remove snapshots that no job names and nobody has used for
//     the retention, and then the contents that no list names.
//
// What always holds: a list is put after all of its contents, and removed before
// any of them. Several processes may work on one shelf, and they hold no locks:
// a content is taken for stored only in the first half of the retention after
// it was put there (later it is sent and put again), and is removed only after
// the whole of it. What is said of an environment is put after its tar, and
// removed before it.
//
// It must not know who asks, nor how jobs run.
package depot
