// Command muster-shim is the process above one container. muster starts it;
// package supervise says what it does. It is also the helper that works with a user's files (package
// userfiles).
package main

import (
	"os"

	"github.com/muster-dev/muster/internal/node/shim/supervise"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == userfiles.Verb {
		os.Exit(userfiles.Serve(os.Args[2:]))
	}
	os.Exit(supervise.Main(os.Args))
}
