// Package lifecycle decides a pod's next step: the containers to start, the containers
// to stop, and the pod's final phase.
//
//   - A [Pod] with its [Container] values is the observed state. [Decide] returns a
//     [Decision] for it.
//   - [BackOff] is the delay before a container restarts.
//
// The package must not know processes or clocks. Its caller starts and stops the
// containers.
package lifecycle
