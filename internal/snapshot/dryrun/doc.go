// Package dryrun creates a sample pod of each role of a gang by a dry run, and caches
// the API server's answers.
//
// Vocabulary:
//
//   - An [Answer] has the roles with the API server's defaults, or its refusal.
//   - Gangs are twins if their pods differ only in the gang's name. Twins share one
//     dry run.
//   - A refusal is firm after [FirmAsks] refusals. An API server that has just started
//     refuses pods because its own caches are not filled yet.
//
// The package must not know the queue of gangs, nor the scheduler's decisions.
package dryrun
