//go:build !linux

package main

import (
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/absent"
	"github.com/muster-dev/muster/internal/cli/doctor"
)

// machine stands in for the verbs about Muster on this machine. doctor looks at
// clusters.
func machine() []cli.Verb {
	return []cli.Verb{
		absent.New("up", "Start Muster on this machine"),
		absent.New("down", "Stop Muster on this machine"),
		absent.New("status", "Say whether Muster runs here"),
		doctor.New,
	}
}
