// Package dist tries the files of a release as a user does: the wheel in a new
// virtual environment, the static program in an empty root. What this machine
// cannot run is opened and its headers are read. `make test-dist` makes the files
// first; MUSTER_DIST names their folder and MUSTER_DIST_PARTS the parts in it.
package dist
