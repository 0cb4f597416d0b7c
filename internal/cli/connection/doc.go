// Package connection finds the Muster that a command talks to and makes the
// clients for it.
//
// The home is Muster's data folder: --home, else $MUSTER_HOME, else ~/.muster.
// The kubeconfig is the first there is of: --kubeconfig; <home>/kubeconfig,
// which a running Muster writes; $KUBECONFIG. Where there is none, or nobody
// answers at the home's address, no Muster is running here, and the error says
// where was looked and how to start one.
//
// A [Factory] is made once a process and handed to every command; it makes
// clients on first use, so that commands that need no server never touch one.
//
// It must not know any command, nor what is asked of the server.
package connection
