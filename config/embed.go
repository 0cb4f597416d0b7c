// Package config carries inside the binary what monitoring needs. What is
// applied to a server is in package charts.
package config

import "embed"

// Monitoring holds a dashboard for Grafana and alert rules for Prometheus,
// below "monitoring".
//
//go:embed monitoring/*
var Monitoring embed.FS
