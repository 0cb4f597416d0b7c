// Package connection finds the Muster that a command talks to and makes the
// clients for it.
//
// The home is Muster's data folder: --home, else $MUSTER_HOME, else ~/.muster. The box is
// the Muster of all users of this machine, behind the socket /run/muster/muster.sock
// ($MUSTER_SOCKET). A command talks to the first there is of:
//
//  1. the kubeconfig that --kubeconfig names
//  2. <home>/kubeconfig, if a flag or variable names the home, or its Muster runs
//  3. the box, unless a flag or variable names a home, or a flag a context
//  4. <home>/kubeconfig, which a Muster leaves when it stops
//  5. $KUBECONFIG
//
// Where there is none, or nobody answers at the home's address, no Muster is running here,
// and the error says where was looked and how to start one. Requests to the box go by the
// socket, as this user; streams of exec and kubectl go by the port of its API server, with
// a short certificate ([Factory.Credential]).
//
// A [Factory] is made once a process and handed to every command; it makes
// clients on first use, so that commands that need no server never touch one.
//
// It must not know any command, nor what is asked of the server.
package connection
