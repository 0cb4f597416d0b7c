// Package configuration holds the versioned configuration file of embedded
// Muster, `<home>/config.yaml`: its fields, defaults and checks. It knows
// nothing of how the settings are used.
package configuration
