package gpu

import (
	"os"
	"strconv"
	"testing"
)

// TestOwner: the name of an owner is that of the caller's directory of users, else the uid.
func TestOwner(t *testing.T) {
	var asked uint32
	name := func(uid uint32) string {
		asked = uid
		return "ada"
	}
	if p := describe(procRoot, name, Process{PID: os.Getpid()}); p.User != "ada" || asked != uint32(os.Geteuid()) {
		t.Errorf("the owner is %q; asked for uid %d", p.User, asked)
	}
	if p := describe(procRoot, byNumber, Process{PID: os.Getpid()}); p.User != "uid "+strconv.Itoa(os.Geteuid()) {
		t.Errorf("the owner is %q", p.User)
	}
}
