// Package connlimit bounds the connections of each user of a machine, so that one user cannot take those of
// others.
//
// It must not know HTTP, nor how the user of a connection is found.
package connlimit
