// Package archivedlog reads the output of pods that are gone, which the node keeps in the
// archive of a data folder, for commands and for callers at the door.
//
// Names of namespaces, jobs and pods come from requests: none leads out of the archive.
//
// It must not know who may read which output.
package archivedlog
