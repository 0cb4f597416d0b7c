// Package config carries the generated manifests (CRDs) inside the binary, so
// that `muster up` and `muster install` apply exactly what the repository
// holds.
package config

import "embed"

// CRD holds the CustomResourceDefinitions, one YAML file a kind, below "crd".
//
//go:embed crd/*.yaml
var CRD embed.FS
