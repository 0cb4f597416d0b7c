// Package collector decides how much memory the control plane may use to save
// time: much while it starts and while much is asked of it, little when it
// idles, which is nearly always.
//
// It goes by what the garbage collector does: one that comes again soon is what
// a rush looks like. It must not know what the process does.
package collector
