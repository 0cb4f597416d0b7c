// Package ociimage writes a container image as a tar of an OCI image layout, for one
// architecture or several: a layer with the program and its licences, and what a
// registry, containerd, skopeo and Docker with containerd's image store read around it.
//
// Vocabulary: a blob is content by its digest; the layout's index names the one
// image, which is an index of manifests, one for each architecture.
//
// It must not know what the program does.
package ociimage
