// Package manager is everything of Muster's that runs beside an API server,
// made once: the cache, the controllers, the scheduler, and what tells others
// that they are well. `muster up` runs it alone on one machine, `muster serve`
// in several replicas of which one is elected.
//
// Vocabulary: to be elected is to be the one replica whose controllers and
// scheduler run; the others stand by. The election is for order, not for
// safety: what a replaced scheduler still writes is stopped by package fencing.
//
// It must not know where the API server runs, nor what a controller decides.
package manager
