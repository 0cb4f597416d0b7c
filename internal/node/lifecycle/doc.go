// Package lifecycle decides what a pod needs next: which of its containers start and
// stop, and how it ends.
//
//   - A [Pod] and its [Container] values are what is known of a pod. [Decide] makes a
//     [Decision] of it.
//   - [BackOff] is the pause before a container that ended is started again.
//
// It must not know processes, clocks, nor who carries out what was decided.
package lifecycle
