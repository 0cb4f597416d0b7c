package holder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Holder is a process. The zero value is an unknown one.
type Holder struct {
	// Boot identifies the machine since its last start, Space the PID namespace.
	Boot  string `json:"boot,omitempty"`
	Space string `json:"space,omitempty"`
	// PID and Ticks, its start in clock ticks since the boot, identify the process: the system gives a
	// PID to another process later.
	PID   int    `json:"pid,omitempty"`
	Ticks string `json:"ticks,omitempty"`
	// Host and Command are for people.
	Host    string `json:"host,omitempty"`
	Command string `json:"command,omitempty"`
}

// Self is this process.
func Self() Holder {
	h := Of(os.Getpid())
	h.Command = command(os.Args)
	return h
}

// Of is a process of this machine.
func Of(pid int) Holder {
	h := Holder{PID: pid}
	if host, err := os.Hostname(); err == nil {
		h.Host = host
	}
	h.Boot, h.Space = machine()
	h.Ticks, _ = started(pid)
	return h
}

// command is the name of the program with its verbs: further arguments may be secret, or long.
func command(args []string) string {
	if len(args) == 0 {
		return ""
	}
	words := []string{filepath.Base(args[0])}
	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "-") || len(words) > 2 || strings.Trim(arg, "abcdefghijklmnopqrstuvwxyz-") != "" {
			break
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// Ended reports whether the process has certainly ended. It knows of processes of this
// machine, in the same PID namespace, since its last start.
func (h Holder) Ended() bool {
	boot, space := machine()
	if boot == "" || space == "" || h.Ticks == "" || h.Boot != boot || h.Space != space {
		return false
	}
	ticks, known := started(h.PID)
	return known && ticks != h.Ticks
}

// String names the process: "process 123 (muster data mount)".
func (h Holder) String() string {
	if h.PID == 0 {
		return "a process"
	}
	words := fmt.Sprintf("process %d", h.PID)
	if h.Command != "" {
		words += " (" + h.Command + ")"
	}
	if boot, _ := machine(); h.Host != "" && h.Boot != boot {
		words += " on " + h.Host
	}
	return words
}
