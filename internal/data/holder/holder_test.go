package holder

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"muster data put": {"/usr/bin/muster", "data", "put", "secret", "digits"},
		"muster up":       {"muster", "up", "--detach", "x"},
		"python":          {"python", "-c", "key='s'"},
		"muster data":     {"muster", "data", "Digits"},
		"":                nil,
	} {
		if got := command(args); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// TestEnded: only a process that has certainly ended counts as ended.
func TestEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are identified by /proc")
	}
	other := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	h := Of(other.Process.Pid)
	if h.Ended() || Self().Ended() || !strings.Contains(Self().String(), "process ") {
		t.Errorf("%+v and %+v live", h, Self())
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	if !h.Ended() {
		t.Errorf("%+v was killed", h)
	}
	for name, change := range map[string]func(*Holder){
		"of another machine, or before its last start": func(h *Holder) { h.Boot = "another" },
		"in another container":                         func(h *Holder) { h.Space = "pid:[1]" },
		"of an earlier version":                        func(h *Holder) { *h = Holder{} },
	} {
		changed := h
		if change(&changed); changed.Ended() {
			t.Errorf("a process %s is not known to have ended", name)
		}
	}
	reused := Of(os.Getpid())
	reused.Ticks = "1"
	if !reused.Ended() {
		t.Error("its PID is another process's now")
	}
}
