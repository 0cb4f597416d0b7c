// Package console is the command `muster console`: it opens the pages of Muster in a browser.
//
// The console is that of the Muster of the data folder; with --ssh, that of another machine, by a
// tunnel; with a kubeconfig of a cluster, one on this machine, with the credential of the kubeconfig.
package console
