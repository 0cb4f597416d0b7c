// Package environment turns requirements into Python environments: built once,
// kept by content, ready before anything is scheduled.
//
// Vocabulary:
//
//   - A request is what a job says: the text of a requirements.txt and a Python
//     version, or the folder of an environment that exists. A [Builder] itself makes
//     none for images.
//   - A key names an environment by its inputs: the normalised requirements, the content of local
//     packages, the name of the Secret that the build reads, and the exact interpreter. Equal keys
//     are one environment.
//   - A local package is one that requirements name by its path in the code.
//   - An environment is ready when its marker lies beside it. The marker is
//     written last: what a crash leaves has none and is built anew.
//   - A bench is the folder in which somebody else builds an environment, for the
//     Python of an image. It is complete once there is a note (package bundle) of
//     what was made, and the marker.
//   - To prune is to remove the environments that may go, by a rule of package
//     retention. Who reserves one holds its lock shared, who builds or removes it
//     holds it alone, whichever process they are.
//
// [Builder.Ensure] never blocks: it answers with the state as it is and sees
// to the rest in the background; [Builder.Changes] tells when to ask again.
// One environment is built at a time, and one key is built by one process at a
// time, whichever program asks.
//
// It knows neither Kubernetes nor jobs.
package environment
