// Package instance is the embedded Muster of one data folder, seen from
// outside: its state file, whether its process lives, how to wait for it and
// how to stop it. `muster up` writes the state; `down`, `status` and `doctor`
// read it. It knows nothing of what runs inside.
package instance
