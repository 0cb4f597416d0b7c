// Package kubectl is the command `muster kubectl`: upstream's kubectl, unchanged,
// inside the program. By default it talks to the same server as every other verb.
//
// Plugins are off: a program in PATH cannot add a command.
//
// It must not know any command of kubectl.
package kubectl
