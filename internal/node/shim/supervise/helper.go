package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// helper is a process whose parent handles SIGTERM for it, so that SIGTERM from
// here would do harm.
type helper int

const (
	noHelper helper = iota
	// loader loads data for a PyTorch trainer. If it died of SIGTERM, PyTorch
	// would raise an exception in the trainer, which is about to save. It is
	// asked once the trainer has ended.
	loader
	// launched was started by a launcher that passes SIGTERM on to it. A SIGTERM from here would be
	// its second one.
	launched
)

// launchers are programs that pass SIGTERM on to their children.
var launchers = []string{"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted", "hydra_pmi_proxy"}

// helperOf returns how a process helps its parent. Only a parent with a handler for SIGTERM can
// answer for another process.
func helperOf(parent, pid int) helper {
	if !lineage.ReadHandling(parent).Catches(unix.SIGTERM) {
		return noHelper
	}
	switch {
	case loads(pid):
		return loader
	case launches(parent, pid):
		return launched
	}
	return noHelper
}

// loads reports whether a process is a worker of PyTorch's DataLoader: by its
// name (since PyTorch 2.6), or by the signals for which PyTorch gives these
// workers handlers and no other process. Python's faulthandler catches SIGABRT
// beside most of them.
func loads(pid int) bool {
	if string(bytes.TrimSpace(read(pid, "comm"))) == "pt_data_worker" {
		return true
	}
	h := lineage.ReadHandling(pid)
	return h.Catches(unix.SIGTERM) && h.Catches(unix.SIGBUS) && h.Catches(unix.SIGSEGV) && h.Catches(unix.SIGFPE) && !h.Catches(unix.SIGABRT)
}

// launches reports whether a process passes SIGTERM on to its child.
func launches(parent, child int) bool {
	if program, err := os.Readlink(procPath(parent, "exe")); err == nil && slices.Contains(launchers, filepath.Base(program)) {
		return true
	}
	// torchrun, and all that starts workers by PyTorch's elastic agent.
	elastic := []byte("TORCHELASTIC_RUN_ID=")
	return sets(child, elastic) && !sets(parent, elastic) ||
		bytes.Contains(read(parent, "cmdline"), []byte("deepspeed.launcher.launch"))
}

// sets reports whether a process was started with a variable.
func sets(pid int, variable []byte) bool {
	return slices.ContainsFunc(bytes.Split(read(pid, "environ"), []byte{0}), func(entry []byte) bool {
		return bytes.HasPrefix(entry, variable)
	})
}

// read returns the content of a process's file in /proc, nothing if it has
// ended.
func read(pid int, name string) []byte {
	data, err := os.ReadFile(procPath(pid, name))
	if err != nil {
		return nil
	}
	return data
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
