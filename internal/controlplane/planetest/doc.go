// Package planetest starts an embedded control plane for a test and stops it
// when the test ends.
//
// The control plane's child is the built program, bin/muster of the repository
// or the file that $MUSTER_BINARY names. A test binary therefore does not link
// kube-apiserver, and its tests run the child that users run. `make build`
// makes the program.
//
// Only tests import it. It must not import package upstream.
package planetest
