// Package website puts the server for people together: the console of `muster up`, for one user or for
// all users of the machine, and that of `muster console` on a laptop.
//
// It must not know flags, nor when a console starts.
package website
