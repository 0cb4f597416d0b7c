//go:build unix

package web

import "syscall"

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
