package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// adoptAll closes a runtime, opens another over the same folder and returns
// what that adopts.
func adoptAll(t *testing.T, old *Runtime) (*Runtime, []*Process) {
	t.Helper()
	old.Close()
	r := openRuntime(t, old.root)
	all, err := r.Adopt(t.Context())
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	return r, all
}

func TestAdopt(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		r := newRuntime(t)
		dir := t.TempDir()
		gate := filepath.Join(dir, "gate")
		labels := func(s *Spec) { s.Labels = map[string]string{"pod": "default/a"} }
		lives := start(t, r, shell("echo one; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo two; exit 5", tier, labels))
		ended := start(t, r, shell("exit 3", tier, labels))
		unseen := start(t, r, shell("sleep 0.2; exit 4", tier, labels))
		wait(t, ended)
		follow(t, lives, "one\n")
		r.Close()
		// One ends while nobody watches.
		eventually(t, "an exit on record", func() bool {
			_, err := readExit(unseen.Dir())
			return err == nil
		})
		r, all := adoptAll(t, r)
		if len(all) != 3 {
			t.Fatalf("adopted %d containers, want 3", len(all))
		}
		byID := map[string]*Process{}
		for _, p := range all {
			byID[p.Spec().ID] = p
			if diff := cmp.Diff(labels1, p.Spec().Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		}
		if exit := wait(t, byID[ended.Spec().ID]); exit.Code != 3 {
			t.Errorf("the ended one's exit = %+v, want 3", exit)
		}
		if exit := wait(t, byID[unseen.Spec().ID]); exit.Code != 4 || exit.FinishedAt.IsZero() {
			t.Errorf("the unseen one's exit = %+v, want 4", exit)
		}
		again := byID[lives.Spec().ID]
		if again.PID() != lives.PID() || !again.StartedAt().Equal(lives.StartedAt()) {
			t.Errorf("adopted as %d since %v, was %d since %v", again.PID(), again.StartedAt(), lives.PID(), lives.StartedAt())
		}
		// Its logs go on where they were.
		logs, err := again.Logs(t.Context(), LogQuery{Follow: true, Tail: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = logs.Close() }()
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(logs)
		if string(text) != "one\ntwo\n" {
			t.Errorf("followed %q", text)
		}
		if exit := wait(t, again); exit.Code != 5 {
			t.Errorf("the live one's exit = %+v, want 5", exit)
		}
		for _, p := range all {
			if err := p.Remove(); err != nil {
				t.Error(err)
			}
		}
		if rest, err := r.Adopt(t.Context()); err != nil || len(rest) != 0 {
			t.Errorf("after Remove, Adopt = %d containers, %v", len(rest), err)
		}
	})
}

var labels1 = map[string]string{"pod": "default/a"}

func TestStopDeadlineOutlivesTheRuntime(t *testing.T) {
	r := newRuntime(t)
	p := start(t, r, shell("trap '' TERM; echo up; while true; do sleep 0.01; done"))
	follow(t, p, "up\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = p.Stop(ctx, 200*time.Millisecond)
	_, all := adoptAll(t, r)
	if exit := wait(t, all[0]); exit.Signal != int(unix.SIGKILL) {
		t.Errorf("exit = %+v, want killed", exit)
	}
}

func TestShimKilled(t *testing.T) {
	for _, watched := range []bool{true, false} {
		t.Run("watched="+strconv.FormatBool(watched), func(t *testing.T) {
			eachTier(t, func(t *testing.T, tier func(*Spec)) {
				r := newRuntime(t)
				mark := "mark-" + rand.Text()
				empty := "env -i"
				if readHierarchies().unified == "" || os.Getuid() != 0 {
					empty = "" // without control groups, the environment tells
				}
				p := start(t, r, shell(`
					setsid sh -c 'trap "" TERM; sleep 600; : `+mark+`' &
					(setsid `+empty+` /bin/sh -c 'sleep 601; : `+mark+`' &)
					echo up
					sleep 600; : `+mark, tier))
				eventually(t, "the tree is there", func() bool { return alive(mark) >= 3 && output(t, p) == "up\n" })
				if !watched {
					r.Close()
				}
				if err := unix.Kill(p.identity.PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				if !watched {
					eventually(t, "the shim is gone", func() bool {
						stat, err := lineage.Read(p.identity.PID)
						return err != nil || stat.State == 'Z'
					})
					_, all := adoptAll(t, r)
					p = all[0]
				}
				exit := wait(t, p)
				if exit.Reason != ReasonShimLost || exit.Code == 0 {
					t.Errorf("exit = %+v, want that the shim was lost", exit)
				}
				if n := alive(mark); n != 0 {
					t.Errorf("%d processes are left", n)
				}
				if again, err := readExit(p.Dir()); err != nil || again.Reason != ReasonShimLost {
					t.Errorf("on record: %+v, %v", again, err)
				}
				if got := output(t, p); got != "up\n" {
					t.Errorf("output = %q", got)
				}
			})
		})
	}
}

func TestAdoptDoesNotMistakeNumbers(t *testing.T) {
	// A process that bears the number of a shim of long ago lives on.
	r := newRuntime(t)
	bystander := start(t, r, shell("exec sleep 600"))
	for name, change := range map[string]func(*contract.Identity){
		"another start": func(i *contract.Identity) { i.StartTicks++ },
		"another boot":  func(i *contract.Identity) { i.Boot = "before" },
	} {
		t.Run(name, func(t *testing.T) {
			s := shell("true")
			p := newProcess(r, s, r.folder(s))
			if err := p.makeFolder(); err != nil {
				t.Fatal(err)
			}
			stat, err := lineage.Read(bystander.PID())
			if err != nil {
				t.Fatal(err)
			}
			identity := contract.Identity{Boot: r.boot, PID: bystander.PID(), StartTicks: stat.StartTicks}
			change(&identity)
			if err := writeJSON(filepath.Join(p.Dir(), contract.IdentityFile), identity); err != nil {
				t.Fatal(err)
			}
			lost, err := r.adopt(t.Context(), p.Dir())
			if err != nil {
				t.Fatal(err)
			}
			if exit := wait(t, lost); exit.Reason != ReasonShimLost {
				t.Errorf("exit = %+v, want that the shim was lost", exit)
			}
			if _, err := lineage.Read(bystander.PID()); err != nil {
				t.Error("the bystander was killed")
			}
			if _, err := lost.Usage(); !errors.Is(err, ErrEnded) {
				t.Errorf("Usage = %v, want ErrEnded", err)
			}
		})
	}
}

func TestAdoptOfHalfMadeFolders(t *testing.T) {
	r := newRuntime(t)
	folder := func(name string) string {
		dir := filepath.Join(r.root, name, containersFolder, "main", "0")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty := folder("empty")
	torn := folder("torn")
	write(torn, contract.SpecFile, `{"id": "to`)
	foreign := folder("foreign")
	write(foreign, contract.SpecFile, `{"id":"x/y/0","podUID":"x","container":"y","argv":["true"]}`)
	before := folder("before")
	write(before, contract.SpecFile, `{"id":"before/main/0","podUID":"before","container":"main","argv":["true"]}`)
	all, err := r.Adopt(t.Context())
	if err == nil || !strings.Contains(err.Error(), torn) || !strings.Contains(err.Error(), foreign) {
		t.Errorf("Adopt = %v, want errors on %s and %s", err, torn, foreign)
	}
	if _, err := os.Stat(empty); !os.IsNotExist(err) {
		t.Error("a folder without a spec was not removed")
	}
	if len(all) != 1 || wait(t, all[0]).Reason != ReasonNeverStarted {
		t.Errorf("adopted %v, want one that never started", all)
	}
	for _, dir := range []string{torn, foreign} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestShimWithoutOrder(t *testing.T) {
	// A muster that ends between the start of the shim and its order leaves
	// nothing running.
	r := newRuntime(t)
	flag := filepath.Join(t.TempDir(), "ran")
	s := shell("touch " + flag)
	p := newProcess(r, s, r.folder(s))
	if err := p.makeFolder(); err != nil {
		t.Fatal(err)
	}
	shim, link, err := p.startShim()
	if err != nil {
		t.Fatal(err)
	}
	link.close()
	if state, err := shim.Wait(); err != nil || !state.Success() {
		t.Errorf("the shim ended with %v, %v", state, err)
	}
	_, all := adoptAll(t, r)
	if exit := wait(t, all[0]); exit.Reason != ReasonNeverStarted {
		t.Errorf("exit = %+v, want that it never started", exit)
	}
	if _, err := os.Stat(flag); !os.IsNotExist(err) {
		t.Error("the command ran")
	}
}

func TestStopBeforeTheStart(t *testing.T) {
	// A stop that reaches a shim before its order does is not lost.
	r := newRuntime(t)
	s := shell("exec sleep 600")
	p := newProcess(r, s, r.folder(s))
	if err := p.makeFolder(); err != nil {
		t.Fatal(err)
	}
	shim, link, err := p.startShim()
	if err != nil {
		t.Fatal(err)
	}
	stopper, err := p.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stopper.close()
	if err := stopper.send(contract.Request{Op: contract.OpStop, Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	p.identity = contract.Identity{Boot: r.boot, PID: shim.Pid}
	if err := link.send(contract.Order{HostPID: shim.Pid}); err != nil {
		t.Fatal(err)
	}
	if err := r.watch(p, link, shim); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != int(unix.SIGTERM) {
		t.Errorf("exit = %+v, want signal 15", exit)
	}
}

func TestAdoptTwenty(t *testing.T) {
	r := newRuntime(t)
	for range 20 {
		start(t, r, shell("exec sleep 600"))
	}
	r.Close()
	began := time.Now()
	_, all := adoptAll(t, r)
	t.Logf("%d containers adopted in %v", len(all), time.Since(began))
	if len(all) != 20 {
		t.Errorf("adopted %d containers, want 20", len(all))
	}
	ids := ""
	for _, p := range all {
		if ids >= p.Spec().ID {
			t.Error("not in the order of their IDs")
		}
		ids = p.Spec().ID
		if p.PID() == 0 {
			t.Error(fmt.Sprint("no PID of ", ids))
		}
	}
}
