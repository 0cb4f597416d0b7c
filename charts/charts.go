// Package charts carries the Helm chart inside the binary, so that `muster
// install` applies, and `muster up` takes its kinds from, exactly what the
// repository holds and Helm would install.
//
// The generated CRDs (`make generate`) lie in the chart and nowhere else.
//
// It must not know how a chart is rendered.
package charts

import "embed"

// Muster is the chart, below "muster".
//
//go:embed all:muster
var Muster embed.FS

// CRD holds the CustomResourceDefinitions, one YAML file a kind, below
// "muster/crd".
//
//go:embed muster/crd/*.yaml
var CRD embed.FS

// Kubeflow holds definitions of kinds that are not Muster's own and that it
// runs, below "muster/kubeflow". They are for servers that have none: a
// definition that is there already belongs to somebody else and stays as it is.
//
//go:embed muster/kubeflow/*.yaml
var Kubeflow embed.FS

// Machine holds the templates that `muster up` adds to those of the chart where several
// users share a machine, below "machine". They use the chart's helpers.
//
//go:embed machine/*.yaml
var Machine embed.FS
