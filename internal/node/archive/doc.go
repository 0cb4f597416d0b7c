// Package archive keeps the logs of job members whose pods are gone, for as
// long as the job exists.
//
// Logs lie in <root>/<namespace>/<job uid>/<pod name>[.<n>]/<container>/
// <restart>/; a pod that was made again under the same name gets the next n,
// from 2. What lies in such a folder is the runtime's own format, to be read
// with process.OpenLogs.
//
// The package must not know who decides that a job exists no longer.
package archive
