// Command kubectl is the upstream client, built from the module that Muster
// depends on, so that the end-to-end tests run the kubectl of the same version.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
