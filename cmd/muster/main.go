// Command muster is all of Muster: the embedded control plane and node, and
// the command line. On systems other than Linux it is the command line alone.
package main

import (
	"os"

	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], terminal.Standard(), machine()...))
}
