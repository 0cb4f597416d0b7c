package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// lives says whether there is a process of a number, even a dead one that
// nobody has waited for.
func lives(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}

func TestExitIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name, script string
		code, signal int
	}{
		{"success", "exit 0", 0, 0},
		{"failure", "exit 7", 7, 0},
		{"killed", "kill -KILL $$", 137, 9},
		{"ended by a signal", "kill -TERM $$", 143, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := launch(t, c.script, nil)
			got := s.exit()
			if got.Code != c.code || got.Signal != c.signal || got.Err != "" {
				t.Errorf("told %+v, want code %d, signal %d", got, c.code, c.signal)
			}
			if got.StartedAt.IsZero() || got.FinishedAt.Before(got.StartedAt) {
				t.Errorf("it ran from %v to %v", got.StartedAt, got.FinishedAt)
			}
			recorded, err := s.recorded()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, recorded); diff != "" {
				t.Errorf("the record differs from what was told (-told +recorded):\n%s", diff)
			}
		})
	}
}

func TestNeverStarted(t *testing.T) {
	t.Run("no such command", func(t *testing.T) {
		s := launch(t, "", func(s *contract.Spec) { s.Argv = []string{"/no/such"} })
		if exit := s.exit(); exit.Code != 127 || exit.Reason != contract.ReasonNotFound || !exit.StartedAt.IsZero() {
			t.Errorf("told %+v", exit)
		}
	})
	t.Run("no order", func(t *testing.T) {
		// The muster that started it is gone before it said a word.
		flag := filepath.Join(t.TempDir(), "ran")
		s := prepare(t, "touch "+flag, nil)
		if err := s.first.Close(); err != nil {
			t.Fatal(err)
		}
		s.awaitGone()
		if _, err := s.recorded(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an exit was recorded, %v", err)
		}
		if _, err := os.Stat(flag); err == nil {
			t.Error("the command ran")
		}
	})
}

// deaf is a piece of shell that tells its number and ignores SIGTERM for ever.
func deaf(says *rig.Pipe) string {
	return `trap "" TERM HUP INT; ` + says.Say("$$") + `; while :; do sleep 600; done`
}

// tree is a script whose main process has left a child in a session of its
// own and an orphan behind, which both ignore SIGTERM; then it does what is
// said. It returns the numbers of both once they are there.
func tree(t *testing.T, then string) (script string, pids func() []string) {
	child, orphan := rig.NewPipe(t), rig.NewPipe(t)
	script = "setsid sh -c '" + deaf(child) + "' & (setsid sh -c '" + deaf(orphan) + "' &) ; " + then
	return script, func() []string { return []string{child.Hear(), orphan.Hear()} }
}

func TestNothingOfTheTreeOutlivesTheExit(t *testing.T) {
	ends := rig.NewPipe(t)
	script, pids := tree(t, ends.Await()+"; exit 3")
	s := launch(t, script, nil)
	all := append(pids(), strconv.Itoa(s.started()))
	ends.Open()
	if exit := s.exit(); exit.Code != 3 || exit.CPUSeconds == 0 || exit.MaxRSSBytes == 0 {
		t.Errorf("told %+v, want code 3 and what the tree used", exit)
	}
	for _, pid := range all {
		if lives(pid) {
			t.Errorf("process %s is still there", pid)
		}
	}
}

func TestOrphansAreReaped(t *testing.T) {
	const orphans = 20
	says, ends := rig.NewPipe(t), rig.NewPipe(t)
	s := launch(t, fmt.Sprintf(`for i in $(seq %d); do (setsid sh -c '%s' &); done; %s`, orphans, says.Say("$$"), ends.Await()), nil)
	main := s.started()
	for range orphans {
		says.Hear()
	}
	// Only the shim knows when it has waited for a process that is not ours,
	// and it tells nobody: hence the poll.
	var left []int
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if left = lineage.Descendants(s.process.Process.Pid); len(left) == 1 && left[0] == main {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the shim's tree is %v, want the main process %d alone", left, main)
		}
	}
	ends.Open()
	if exit := s.exit(); exit.Code != 0 {
		t.Errorf("told %+v", exit)
	}
}

func TestStop(t *testing.T) {
	const grace = 300 * time.Millisecond
	t.Run("obeys", func(t *testing.T) {
		up := rig.NewPipe(t)
		s := launch(t, `trap 'exit 5' TERM; `+up.Say("up")+`; `+waits, nil)
		up.Hear()
		if r := s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour}); !r.Done {
			t.Errorf("the shim answered %+v", r)
		}
		if exit := s.exit(); exit.Code != 5 || exit.Signal != 0 {
			t.Errorf("told %+v, want code 5", exit)
		}
	})
	t.Run("ignores it", func(t *testing.T) {
		main := rig.NewPipe(t)
		script, pids := tree(t, deaf(main))
		s := launch(t, script, nil)
		all := append(pids(), main.Hear())
		began := time.Now()
		s.ask(contract.Request{Op: contract.OpStop, Grace: grace})
		// A later stop can only bring the end forward.
		s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
		exit := s.exit()
		if took := time.Since(began); took < grace || took > grace+2*time.Second {
			t.Errorf("it took %v, want the grace of %v", took, grace)
		}
		if exit.Signal != int(syscall.SIGKILL) || exit.Code != 137 {
			t.Errorf("told %+v, want killed", exit)
		}
		for _, pid := range all {
			if lives(pid) {
				t.Errorf("process %s is still there", pid)
			}
		}
	})
	t.Run("brought forward", func(t *testing.T) {
		main := rig.NewPipe(t)
		s := launch(t, deaf(main), nil)
		main.Hear()
		s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
		s.ask(contract.Request{Op: contract.OpStop})
		if exit := s.exit(); exit.Signal != int(syscall.SIGKILL) {
			t.Errorf("told %+v, want killed", exit)
		}
	})
	t.Run("before the start", func(t *testing.T) {
		s := prepare(t, "sleep 600", nil)
		stopping, err := json.Marshal(contract.Request{Op: contract.OpStop, Grace: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		conn := s.dial()
		if _, err := conn.Write(append(stopping, '\n')); err != nil {
			t.Fatal(err)
		}
		s.send(s.first, contract.Order{HostPID: s.process.Process.Pid})
		if exit := s.exit(); exit.Signal != int(syscall.SIGTERM) {
			t.Errorf("told %+v, want that it was asked to end", exit)
		}
	})
	t.Run("the shim itself", func(t *testing.T) {
		up := rig.NewPipe(t)
		s := launch(t, `trap 'exit 6' TERM; `+up.Say("up")+`; `+waits, nil)
		up.Hear()
		if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if exit := s.exit(); exit.Code != 6 {
			t.Errorf("told %+v, want code 6", exit)
		}
	})
}

func TestSignal(t *testing.T) {
	heard := rig.NewPipe(t)
	s := launch(t, `trap '`+heard.Say("usr1")+`; exit 4' USR1; `+heard.Say("up")+`; `+waits, nil)
	heard.Hear()
	if r := s.ask(contract.Request{Op: contract.OpSignal, Signal: int(syscall.SIGUSR1)}); !r.Done || r.Error != "" {
		t.Errorf("the shim answered %+v", r)
	}
	if word := heard.Hear(); word != "usr1" {
		t.Errorf("the process said %q", word)
	}
	if exit := s.exit(); exit.Code != 4 {
		t.Errorf("told %+v, want code 4", exit)
	}
}

func TestUnknownOperation(t *testing.T) {
	s := launch(t, "sleep 600", nil)
	s.started()
	if r := s.ask(contract.Request{Op: "dance"}); !strings.Contains(r.Error, "does not know the operation dance") {
		t.Errorf("the shim answered %+v", r)
	}
}

func TestMusterIsGone(t *testing.T) {
	t.Run("after the start", func(t *testing.T) {
		ends := rig.NewPipe(t)
		s := launch(t, ends.Await()+"; exit 8", nil)
		s.started()
		if err := s.first.Close(); err != nil {
			t.Fatal(err)
		}
		// It lives on, and another muster finds it.
		if r := s.ask(contract.Request{Op: contract.OpWait}); !r.Started || r.PID == 0 {
			t.Errorf("the shim answered %+v", r)
		}
		ends.Open()
		s.awaitGone()
		if exit, err := s.recorded(); err != nil || exit.Code != 8 {
			t.Errorf("recorded %+v, %v; want code 8", exit, err)
		}
	})
	t.Run("the shim is killed", func(t *testing.T) {
		// The main process goes with it, so that none runs that nobody watches.
		s := launch(t, "exec sleep 600", nil)
		pid := strconv.Itoa(s.started())
		if err := s.process.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.awaitGone()
		// It is another's child by now: its end can only be looked for.
		for deadline := time.Now().Add(patience); runs(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the main process lives on")
			}
		}
		if _, err := s.recorded(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an exit was recorded, %v", err)
		}
	})
}

// runs says whether a process has not ended.
func runs(pid string) bool {
	n, _ := strconv.Atoi(pid)
	stat, err := lineage.Read(n)
	return err == nil && stat.State != 'Z' && stat.State != 'X'
}

func TestRecordNeedsTheFolder(t *testing.T) {
	// The data folder was deleted: the tree still ends, and who waits is told.
	ends := rig.NewPipe(t)
	s := launch(t, ends.Await()+"; exit 2", nil)
	s.started()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	ends.Open()
	if exit := s.exit(); exit.Code != 2 {
		t.Errorf("told %+v, want code 2", exit)
	}
}

func TestOffFirstThread(t *testing.T) {
	for range 1000 {
		on := make(chan int)
		offFirstThread(func() { on <- unix.Gettid() })
		if tid := <-on; tid == os.Getpid() {
			t.Fatal("it is on the first thread")
		}
	}
}
