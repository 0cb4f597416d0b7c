// Command muster-shim is the process above one container. muster starts it;
// package supervise says what it does.
package main

import (
	"os"

	"github.com/muster-dev/muster/internal/node/shim/supervise"
)

func main() {
	os.Exit(supervise.Main(os.Args))
}
