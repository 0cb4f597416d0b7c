// Package meddler changes a folder while something else reads or writes it. In tests it
// stands for a program that was left behind, or another user of the same folder.
package meddler
