// Package e2e runs the built muster as a person does: muster up, muster run,
// kubectl, kill -9. Every test that can runs in both tiers. It needs
// bin/muster (make build) and is compiled with the build tag e2e.
package e2e
