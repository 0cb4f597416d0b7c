// Package config carries the generated manifests (CRDs) inside the binary, so
// that `muster up` and `muster install` apply exactly what the repository
// holds.
package config

import "embed"

// CRD holds the CustomResourceDefinitions, one YAML file a kind, below "crd".
//
//go:embed crd/*.yaml
var CRD embed.FS

// Kubeflow holds those of kinds that are not Muster's own and that it runs,
// below "kubeflow". They are for servers that have none: a definition that is
// there already belongs to somebody else and stays as it is.
//
//go:embed kubeflow/*.yaml
var Kubeflow embed.FS
