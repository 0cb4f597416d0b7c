// Package dryrun finds out what the API server would make of a gang's pods: it asks
// by a dry run for each role, and keeps the answer.
//
// Vocabulary: an [Answer] is the roles as the API server would make them, or its
// refusal; gangs are twins if their pods are the same but for the gang's name, and
// the API server is asked once for them; a refusal is firm after [FirmAsks] of
// them, because an API server that has just started refuses what it does not know
// yet.
//
// The package must not know which gangs wait, nor what is decided about them.
package dryrun
