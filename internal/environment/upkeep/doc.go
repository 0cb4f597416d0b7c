// Package upkeep keeps code snapshots and built environments from growing for
// ever: now and then, and when it is asked to, it finds out what somebody
// refers to and has both stores remove what may go by the rule of package
// retention.
//
// If it cannot be found out what somebody refers to, nothing is removed.
//
// Who refers to what is asked of a [References]; this package knows neither
// Kubernetes nor jobs.
package upkeep
