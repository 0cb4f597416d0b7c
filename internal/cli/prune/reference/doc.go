// Package reference finds out which code snapshots and environments somebody
// refers to: training jobs, gangs and pods in the API, what the node of this
// machine still runs, known to the API or not, and the configuration.
//
// Where it is in doubt it takes something for a reference; what it cannot read
// is an error, since nothing may then be removed. It must not know what is
// done with the answer.
package reference
