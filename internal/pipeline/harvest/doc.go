// Package harvest brings the log and the output of a program, in the folder of a datum, into the
// form in which results keep them: entries of a tar.
//
// The folder is hostile: programs may write to it meanwhile. Logs are bounded. The package must not
// know the API server, runs or stages.
package harvest
