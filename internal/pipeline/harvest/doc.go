// Package harvest brings what a program left in the folder of a datum, its log and its output, into
// the form in which results keep it: entries of a tar.
//
// The folder is hostile: programs may write to it meanwhile. Logs are bounded. The package must not
// know the API server, runs or stages.
package harvest
