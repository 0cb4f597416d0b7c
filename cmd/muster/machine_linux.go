package main

import (
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/doctor"
	"github.com/muster-dev/muster/internal/cli/down"
	"github.com/muster-dev/muster/internal/cli/plane"
	"github.com/muster-dev/muster/internal/cli/status"
	"github.com/muster-dev/muster/internal/cli/up"
)

// machine are the verbs about Muster on this machine; plane links the API server.
func machine() []cli.Verb {
	return []cli.Verb{up.New, down.New, status.New, doctor.New, plane.New}
}
