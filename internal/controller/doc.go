// Package controller lists every controller of Muster on one page (all.go).
// Each lives in a package of its own below this one, and none imports another;
// they meet in the API's objects alone.
package controller
