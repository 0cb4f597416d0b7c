// Package config carries manifests inside the binary: the generated CRDs, so
// that `muster up` and `muster install` apply exactly what the repository
// holds, and what monitoring needs.
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

// Monitoring holds a dashboard for Grafana and alert rules for Prometheus,
// below "monitoring".
//
//go:embed monitoring/*
var Monitoring embed.FS
