package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// trainer writes a program that says "up", saves when it gets SIGTERM, and then says how often it
// got SIGTERM. The process that it starts to save gets no SIGTERM.
func trainer(t *testing.T, says *rig.Pipe) (file string) {
	t.Helper()
	return program(t, `
import signal, subprocess, time
asked = 0
def say(word):
    with open("`+says.Path()+`", "w") as pipe:
        pipe.write(word + "\n")
def stop(number, frame):
    global asked
    asked += 1
    if asked == 1:
        say("asked")
signal.signal(signal.SIGTERM, stop)
say("up")
while not asked:
    time.sleep(0.01)
if subprocess.run(["sleep", "0.5"]).returncode != 0:
    say("the save was cut short")
say("saved after %d" % asked)
`)
}

// program writes a file of its own.
func program(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// waits is a piece of shell that waits for ever in processes that end soon: a
// signal may come just before one of them is started.
const waits = `while :; do sleep 0.05; done`

// TestEveryProcessIsAsked: the last of twenty processes saves its work, whatever processes are
// between it and the main process.
func TestEveryProcessIsAsked(t *testing.T) {
	const depth = 20
	for _, c := range []struct {
		name, between string
		code          int
	}{
		{"shells", `sh "$0" "$1"; echo after`, 143},
		{"shells with traps", `trap 'exit 7' TERM; sh "$0" "$1"; echo after`, 7},
		{"background", `sh "$0" "$1" & wait`, 143},
		{"nohup", `nohup sh "$0" "$1" > "$0.$1.out" 2>&1; echo after`, 143},
		{"sessions", `setsid sh "$0" "$1" & wait`, 143},
		{"process groups", `set -m; sh "$0" "$1" & wait`, 143},
		{"double forks", `(setsid sh "$0" "$1" &); sleep 600; echo after`, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			says := rig.NewPipe(t)
			file := program(t, fmt.Sprintf("set -- $((${1:-0}+1))\nif [ $1 -lt %d ]; then\n%s\nelse\nexec python3 %s\nfi\n", depth, c.between, trainer(t, says)))
			// A busy machine may run the last process late: one of three tries
			// has to keep the time.
			var took time.Duration
			for range 3 {
				if took = askChain(t, file, says, c.code); took <= 100*time.Millisecond {
					break
				}
			}
			if took > 100*time.Millisecond {
				t.Errorf("the last process heard of it after %v, want at most 100 ms", took)
			}
			t.Logf("the last process heard of it after %v", took)
		})
	}
}

// askChain runs the script and stops it, and returns the delay until the last process got SIGTERM.
func askChain(t *testing.T, file string, says *rig.Pipe, code int) (took time.Duration) {
	t.Helper()
	s := launch(t, "", func(s *contract.Spec) { s.Argv = []string{"/bin/sh", file} })
	if word := says.Hear(); word != "up" {
		t.Fatalf("the last process said %q", word)
	}
	began := time.Now()
	if r := s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour}); !r.Done {
		t.Fatalf("the shim answered %+v", r)
	}
	if word := says.Hear(); word != "asked" {
		t.Errorf("the last process said %q", word)
	}
	took = time.Since(began)
	if word := says.Hear(); word != "saved after 1" {
		t.Errorf("the last process said %q", word)
	}
	exit := s.exit()
	if exit.Code != code || exit.CutShort {
		t.Errorf("told %+v, want code %d and nothing cut short", exit, code)
	}
	if exit.FinishedAt.Sub(began) < 500*time.Millisecond {
		t.Errorf("it finished %v after the request, before the last process", exit.FinishedAt.Sub(began))
	}
	return took
}

// TestForksWhileItIsAsked: no child is missed, however fast they come.
func TestForksWhileItIsAsked(t *testing.T) {
	for _, how := range []string{"", "setsid "} {
		for range 3 {
			up := rig.NewPipe(t)
			s := launch(t, `n=0; while [ $n -lt 300 ]; do `+how+`sleep 600 & n=$((n+1)); [ $n = 20 ] && `+up.Say("up")+`; done; sleep 600`, nil)
			up.Hear()
			s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
			if exit := s.exit(); exit.Code != 143 || exit.CutShort {
				t.Errorf("%s: told %+v, want code 143 and nothing cut short", how, exit)
			}
		}
	}
}

// TestAnswersAreLeftAlone: a command of a trap saves the work, also as a daemon.
func TestAnswersAreLeftAlone(t *testing.T) {
	for name, save := range map[string]string{
		"in the foreground": `sh -c "sleep 0.5; SAVED"`,
		"in a session":      `setsid sh -c "sleep 0.5; SAVED" & wait $!`,
		"as a daemon":       `(setsid sh -c "sleep 0.5; SAVED" &)`,
	} {
		t.Run(name, func(t *testing.T) {
			says := rig.NewPipe(t)
			save := strings.ReplaceAll(save, "SAVED", says.Say("saved"))
			s := launch(t, `trap '`+save+`; exit 4' TERM; `+says.Say("up")+`; `+waits, nil)
			says.Hear()
			s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
			if exit := s.exit(); exit.Code != 4 || exit.CutShort {
				t.Errorf("told %+v, want code 4", exit)
			}
			if word := says.Hear(); word != "saved" {
				t.Errorf("the process said %q", word)
			}
		})
	}
}

// TestEndedProcess: a process that ended of the signal to its group gets no second one. A later signal
// would make an answer of its parent look like a process of before.
func TestEndedProcess(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sleep", "1000")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := lineage.Read(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // the signal ends it
	signalled := lineage.Now()
	f := found{member: member{command.Process.Pid, stat.StartTicks}, Stat: stat}
	standing := &standing{due: true}
	request := newTermination()
	request.at, request.known[f.member], request.asked[f.Group] = signalled, standing, signalled
	for deadline := time.Now().Add(time.Second); lineage.Now() == signalled && time.Now().Before(deadline); { // another tick, or process
		_ = exec.CommandContext(t.Context(), "sleep", "0").Run()
	}
	request.ask(f, true)
	if request.at != signalled || standing.at != signalled {
		t.Errorf("the last signal is of %+v, and that of the process of %+v, want %+v", request.at, standing.at, signalled)
	}
}

// TestChildOfOneThatIgnores is asked, also if it is started after the request.
func TestChildOfOneThatIgnores(t *testing.T) {
	for _, late := range []bool{false, true} {
		says, goes, child := rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t)
		s := launch(t, `trap '' TERM; `+says.Say("up")+`; `+goes.Await()+`; python3 `+trainer(t, child)+`; exit 3`, nil)
		says.Hear()
		if !late {
			goes.Open()
			child.Hear()
		}
		s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
		if late {
			goes.Open()
			child.Hear()
		}
		if word := child.Hear(); word != "asked" {
			t.Errorf("the child said %q", word)
		}
		if exit := s.exit(); exit.Code != 3 {
			t.Errorf("told %+v, want code 3", exit)
		}
	}
}

// TestLoaderOutlivesItsTrainer: PyTorch would end a trainer whose loader died.
func TestLoaderOutlivesItsTrainer(t *testing.T) {
	says, loads, blocks := rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t)
	loader := `sh -c 'trap "` + loads.Say("asked") + `; exit 1" TERM BUS SEGV FPE; ` + loads.Say("up") + `; ` + blocks.Await() + `'`
	s := launch(t, `trap 'sleep 0.5; kill -0 $c && `+says.Say("saved")+`; exit 2' TERM; `+loader+` & c=$!; `+says.Say("up")+`; while :; do wait; done`, nil)
	says.Hear()
	loads.Hear()
	s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
	if word := says.Hear(); word != "saved" {
		t.Errorf("the trainer said %q", word)
	}
	if word := loads.Hear(); word != "asked" {
		t.Errorf("the loader said %q", word)
	}
	if exit := s.exit(); exit.Code != 2 || exit.CutShort {
		t.Errorf("told %+v, want code 2", exit)
	}
}

// TestLauncherAsks: a process that torchrun started gets SIGTERM from torchrun alone.
func TestLauncherAsks(t *testing.T) {
	says := rig.NewPipe(t)
	s := launch(t, `trap 'kill -TERM $c' TERM; TORCHELASTIC_RUN_ID=run setsid python3 `+trainer(t, says)+` & c=$!; wait $c; wait $c; exit 5`, nil)
	says.Hear()
	s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
	for _, want := range []string{"asked", "saved after 1"} {
		if word := says.Hear(); word != want {
			t.Errorf("the worker said %q, want %q", word, want)
		}
	}
	if exit := s.exit(); exit.Code != 5 {
		t.Errorf("told %+v, want code 5", exit)
	}
}

// TestCutShort: the time to end holds for the whole tree.
func TestCutShort(t *testing.T) {
	const grace = 300 * time.Millisecond
	says := rig.NewPipe(t)
	s := launch(t, `sh -c '`+deaf(says)+`'; echo after`, nil)
	says.Hear()
	began := time.Now()
	s.ask(contract.Request{Op: contract.OpStop, Grace: grace})
	exit := s.exit()
	if exit.Code != 143 || !exit.CutShort {
		t.Errorf("told %+v, want code 143 and that it was cut short", exit)
	}
	if took := time.Since(began); took < grace || took > grace+2*time.Second {
		t.Errorf("it took %v, want the grace of %v", took, grace)
	}
}

// TestForcedWhileItSaves: a stop without grace ends the processes that the main process left.
func TestForcedWhileItSaves(t *testing.T) {
	says := rig.NewPipe(t)
	s := launch(t, `sh -c '`+deaf(says)+`'; echo after`, nil)
	says.Hear()
	s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
	if r := s.ask(contract.Request{Op: contract.OpStop}); !r.Done {
		t.Errorf("the shim answered %+v", r)
	}
	// The shell may die of either signal.
	if exit := s.exit(); exit.Code != 143 && exit.Code != 137 || !exit.CutShort {
		t.Errorf("told %+v, want code 143 or 137 and that it was cut short", exit)
	}
}

// TestStoppedProcessIsAsked: one that was paused saves, too.
func TestStoppedProcessIsAsked(t *testing.T) {
	says := rig.NewPipe(t)
	s := launch(t, `trap '`+says.Say("asked")+`; exit 8' TERM; `+says.Say("up")+`; kill -STOP $$; `+waits, nil)
	says.Hear()
	s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
	if exit := s.exit(); exit.Code != 8 {
		t.Errorf("told %+v, want code 8", exit)
	}
}

// TestOpenShellIsNotAwaited: a command beside the main process holds up nothing.
func TestOpenShellIsNotAwaited(t *testing.T) {
	says := rig.NewPipe(t)
	s := launch(t, says.Say("up")+`; `+waits, nil)
	says.Hear()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	request, err := json.Marshal(contract.Request{Op: contract.OpExec, Argv: []string{"/bin/sh", "-c", deaf(says)}})
	if err != nil {
		t.Fatal(err)
	}
	fd := int(null.Fd())
	if _, _, err := s.dial().WriteMsgUnix(append(request, '\n'), unix.UnixRights(fd, fd, fd), nil); err != nil {
		t.Fatal(err)
	}
	says.Hear()
	s.ask(contract.Request{Op: contract.OpStop, Grace: time.Hour})
	if exit := s.exit(); exit.Code != 143 || exit.CutShort {
		t.Errorf("told %+v, want code 143 and nothing cut short", exit)
	}
}
