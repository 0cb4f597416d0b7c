// Package absent stands in for the commands that a build without Muster itself does
// not have: on macOS and Windows, those that need Linux. A person who types one
// learns why, and what to do.
//
// It must not know what these commands do.
package absent
