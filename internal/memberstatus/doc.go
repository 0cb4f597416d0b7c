// Package memberstatus reads the status of a member's pod: its outcome, its start and
// end times, its usage, and its node's reports about data, progress and shares of GPUs.
//
// Vocabulary:
//
//   - A node accepts a pod or refuses it.
//   - Data is awaited while the node fetches it.
//   - An exit code is permanent if a retry would fail in the same way.
//
// The package is pure: its functions get pods and do no I/O. It decides nothing: package
// gang does.
package memberstatus
