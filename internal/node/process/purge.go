package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// purgeFor bounds the wait for killed processes to be gone. Only one that the
// kernel itself holds up takes longer.
const purgeFor = 10 * time.Second

// lose ends what a shim that was killed has left behind, and makes and records
// the exit that it could not.
func (p *Process) lose() Exit {
	exit := Exit{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL), FinishedAt: time.Now(), StartedAt: p.StartedAt()}
	switch {
	case p.identity.PID == 0:
		exit.Code, exit.Signal = 128, 0
		exit.Reason, exit.Err = ReasonNeverStarted, "muster ended before it started the container"
	case p.identity.Boot != p.runtime.boot:
		exit.Reason, exit.Err = ReasonShimLost, "the machine was restarted while the container ran"
	default:
		exit.Reason, exit.Err = ReasonShimLost, "the container's shim was killed, and the container with it"
		if err := p.purge(); err != nil {
			exit.Err += "; " + err.Error()
		}
	}
	if err := writeJSON(filepath.Join(p.dir, contract.ExitFile), exit); err != nil {
		exit.Err += "; recording the exit: " + err.Error()
	}
	return exit
}

// purge kills every process of the container, the shim included, and returns
// when none is left.
func (p *Process) purge() error {
	until := time.Now().Add(purgeFor)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left := p.killLeft()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("processes %v of container %s were killed and do not end", left, p.spec.ID)
		}
		time.Sleep(pause)
	}
}

// killLeft kills what it finds of the container and tells what it was. The main
// process dies with the shim, and so does everything in the isolated tier. In
// the plain tier the rest is known by its control group or, where there is
// none, by its environment: without control groups a process that has both left
// its parent and emptied its environment is not found.
func (p *Process) killLeft() []int {
	found := map[int]bool{}
	if stat, err := lineage.Read(p.identity.PID); err == nil && p.isShim(stat) {
		// Its descendants first: they are known only as long as it lives.
		for _, pid := range lineage.Descendants(p.identity.PID) {
			found[pid] = true
		}
		found[p.identity.PID] = true
	}
	for _, g := range p.identity.Groups {
		if g.Unified {
			_ = os.WriteFile(filepath.Join(g.Path, "cgroup.kill"), []byte("1"), 0)
		}
		for _, pid := range groupMembers(g) {
			found[pid] = true
		}
	}
	mark := []byte(contract.IDVariable + "=" + p.spec.ID)
	for _, pid := range lineage.All() {
		if hasVariable(pid, mark) {
			found[pid] = true
		}
	}
	var left []int
	for pid := range found {
		if stat, err := lineage.Read(pid); err != nil || stat.State == 'Z' || stat.State == 'X' {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
			left = append(left, pid)
		}
	}
	return left
}

// isShim says whether a process with the shim's number is the shim.
func (p *Process) isShim(stat lineage.Stat) bool {
	return p.identity.Boot == p.runtime.boot && p.identity.PID != 0 &&
		stat.StartTicks == p.identity.StartTicks && stat.State != 'Z' && stat.State != 'X'
}

// groupMembers are the processes in a control group.
func groupMembers(g contract.Group) []int {
	data, err := os.ReadFile(filepath.Join(g.Path, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		if n, err := strconv.Atoi(field); err == nil && n != 0 {
			pids = append(pids, n)
		}
	}
	return pids
}

// hasVariable says whether a process began with a variable ("NAME=value") in
// its environment.
func hasVariable(pid int, variable []byte) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || !bytes.Contains(data, variable) {
		return false
	}
	for v := range bytes.SplitSeq(data, []byte{0}) {
		if bytes.Equal(v, variable) {
			return true
		}
	}
	return false
}
