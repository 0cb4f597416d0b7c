// Package imagecheck owns the images that the embedded Muster of this machine cannot run: it reads
// them from manifests, and has the message for each.
//
// A mapped image stands for programs of the machine, and always runs. The package must not know any
// verb, and asks no server.
package imagecheck
