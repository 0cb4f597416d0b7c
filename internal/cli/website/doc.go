// Package website puts the server for people together for one user: the console of `muster up`, and
// that of `muster console` on a laptop.
//
// It must not know flags, nor when a console starts.
package website
