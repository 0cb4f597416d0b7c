// Package chart writes the Helm chart as `helm package` does: checked by Helm's own
// library, with the version of the program as its own and as the image's tag.
//
// It must not know where the image is.
package chart
