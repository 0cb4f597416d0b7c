// Package meddler changes a folder while something else reads or writes it. Tests use it to be a
// program that was left behind, or somebody who may write to the same folder.
package meddler
