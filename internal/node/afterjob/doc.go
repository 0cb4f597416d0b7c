// Package afterjob removes what a node keeps for a TrainingJob once the job is deleted: the folder that its
// members share, and their logs.
//
// It must not know how pods run.
package afterjob
