package userfiles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

func TestMain(m *testing.M) { os.Exit(rig.RunAlone(m)) }

// ada and eve are users that the machine needs no account for.
var (
	ada = userfiles.User{UID: 61234, GID: 61235, Groups: []uint32{61236, 61237}}
	eve = userfiles.User{UID: 61333, GID: 61334}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// helpers are those of the shim as the product has it.
func helpers(t testing.TB, o userfiles.Options) *userfiles.Helpers {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root: it becomes other users")
	}
	o.Program = rig.Shim(t)
	h := userfiles.New(o)
	t.Cleanup(h.Close)
	return h
}

func folder(t testing.TB, u userfiles.User, mode os.FileMode) string {
	t.Helper()
	return rig.Folder(t, int(u.UID), int(u.GID), mode)
}

// processes are the helpers that are children of this process, by their arguments.
func processes(t testing.TB) (pids []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range list {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), "\x00"+userfiles.Verb+"\x00") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && parentOf(pid) == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat returns the state and the parent of a process; nothing: there is none.
func stat(pid int) (state string, parent int) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	_, _ = fmt.Sscanf(rest, "%s %d", &state, &parent)
	return state, parent
}

func state(pid int) string {
	s, _ := stat(pid)
	return s
}

func parentOf(pid int) int {
	state, parent := stat(pid)
	if state == "Z" {
		return 0
	}
	return parent
}

// eventually waits for what another process does.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	end := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not happen: ", what)
		}
	}
}

// descriptors is the number of files that this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
