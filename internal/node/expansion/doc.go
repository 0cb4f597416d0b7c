// Package expansion turns what a container says about its environment into
// plain strings: variables from literals, pod fields, resources, ConfigMaps
// and Secrets, and $(VAR) references in variables, commands and arguments.
//
// It is pure but for the [Lookup] that its caller gives it. A reference to a
// variable that does not exist is left as it is; $$(VAR) is the way to write
// $(VAR) literally.
package expansion
