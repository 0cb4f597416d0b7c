// Package cli is the muster command line: the root command, the list of verbs,
// and what turns their errors into words and an exit code.
//
// Every verb is a package of its own, internal/cli/<verb>, with a constructor
// New(*connection.Factory) *cobra.Command. What verbs share lives in small
// packages beside them:
//
//	connection  finding the Muster, and clients for it
//	exit        exit codes and errors that carry one
//	kind        how users name kinds and objects
//	member      how users name the members of a job
//	output      -o
//	person      who types
//	presence    whether Muster and a manager are on the cluster
//	refusal     the server's refusals, in sentences
//	remote      commands inside members
//	removal     deleting a job and waiting until it is gone
//	standstill  pause and unpause
//	suggestion  did you mean
//	suspension  suspend and resume
//	terminal    colour, tables, progress
//	transcript  a job's output
//
// Exit codes (printed by `muster help exit-codes` from exit.Table):
//
//	0      done; for run and logs -f: the job succeeded
//	1      an error, told on standard error; for run and logs -f: the job
//	       failed and has several members
//	2      the command line makes no sense; nothing was done
//	3      what was named does not exist, or no Muster is running here
//	124    run and logs -f: the job was stopped by its time limit (--max-time)
//	130    interrupted by ^C
//	other  run and logs -f: the exit code of the script of a job with one
//	       member; shell: of the command that ran
package cli
