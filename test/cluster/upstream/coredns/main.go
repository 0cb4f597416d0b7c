// Command coredns is CoreDNS with the few plugins that answer for Services
// and pods, unpatched, so that names mean in the tests what they mean on a
// cluster.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
