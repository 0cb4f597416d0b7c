//go:build !unix

package web

func closeOnExec(int) {}
