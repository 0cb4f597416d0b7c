// Package config carries manifests inside the binary: definitions of foreign
// kinds, and what monitoring needs. Muster's own are in package charts.
package config

import "embed"

// Monitoring holds a dashboard for Grafana and alert rules for Prometheus,
// below "monitoring".
//
//go:embed monitoring/*
var Monitoring embed.FS

// Kubeflow holds definitions of kinds that are not Muster's own and that it
// runs, below "kubeflow". They are for servers that have none: a definition that
// is there already belongs to somebody else and stays as it is.
//
//go:embed kubeflow/*.yaml
var Kubeflow embed.FS
