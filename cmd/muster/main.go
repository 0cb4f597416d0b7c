// Command muster is all of Muster: the embedded control plane and node, and
// the command line.
package main

import (
	"os"

	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/doctor"
	"github.com/muster-dev/muster/internal/cli/down"
	"github.com/muster-dev/muster/internal/cli/plane"
	"github.com/muster-dev/muster/internal/cli/status"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/cli/up"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], terminal.Standard(), up.New, down.New, status.New, doctor.New, plane.New))
}
