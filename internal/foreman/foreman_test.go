package foreman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// shop is a foreman, and what was recorded.
type shop struct {
	*testing.T
	*foreman.Foreman
	mu       sync.Mutex
	recorded map[string]string // by datum: what is in its output, or its error
	logs     map[string]string // by datum: what it said, where somebody wants to know
	broken   int               // how often recording fails yet
}

func open(t *testing.T, change ...func(*foreman.Options)) *shop {
	t.Helper()
	// Deeper than the address of a socket may be long.
	o := foreman.Options{Dir: filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))}
	for _, c := range change {
		c(&o)
	}
	f, err := foreman.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{T: t, Foreman: f, recorded: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *shop) fetch(_ context.Context, d foreman.Datum, folder *os.Root) error {
	if d.Name == "lost" {
		return errors.New("it is damaged")
	}
	if err := folder.MkdirAll("in", 0o755); err != nil {
		return err
	}
	return folder.WriteFile("in/name", []byte(d.Name), 0o600)
}

func (s *shop) record(_ context.Context, results []foreman.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken > 0 {
		s.broken--
		return errors.New("the disk is full")
	}
	for i := range results {
		r := &results[i]
		if r.Failed() {
			s.recorded[r.Name] = r.Error
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.Folder, shift.OutFolder, "made"))
		if err != nil {
			return err
		}
		s.recorded[r.Name] = string(text)
		if s.logs == nil {
			continue
		}
		if text, err = os.ReadFile(filepath.Join(r.Folder, shift.LogFile)); err != nil {
			return err
		}
		s.logs[r.Name] = string(text)
	}
	return nil
}

// work opens a work over datums of these names.
func (s *shop) work(p shift.Program, names ...string) *foreman.Work {
	s.Helper()
	spec := foreman.Spec{Name: "run.stage", Program: p, Tries: 1, Fetch: s.fetch, Record: s.record}
	for i, name := range names {
		spec.Datums = append(spec.Datums, foreman.Datum{ID: fmt.Sprint(i), Name: name})
	}
	w, err := s.Open(s.Context(), spec)
	if err != nil {
		s.Fatal(err)
	}
	return w
}

func (s *shop) worker(ctx context.Context, member string) error {
	return worker.Run(ctx, worker.Options{Folder: s.Folder("run.stage"), Name: member, Member: member, Environ: os.Environ(), Out: io.Discard})
}

func (s *shop) over(w *foreman.Work) foreman.Status {
	s.Helper()
	if !w.Linger(s.Context(), 20*time.Second) {
		s.Fatalf("it is not over: %+v", w.Status())
	}
	return w.Status()
}

func shell(line string) shift.Program {
	return shift.Program{Command: []string{"sh", "-c", line}, Inputs: []string{"in"}}
}

func TestManyWorkers(t *testing.T) {
	s := open(t)
	s.broken = 1
	var names []string
	want := map[string]string{"lost": "fetching the files of datum lost: it is damaged"}
	for i := range 200 {
		name := fmt.Sprintf("d%03d", i)
		names, want[name] = append(names, name), name
	}
	w := s.work(shell(`cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made`), append(names, "lost")...)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			if err := s.worker(t.Context(), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	status := s.over(w)
	group.Wait()
	if diff := cmp.Diff(want, s.recorded); diff != "" || status.Computed != 200 || status.Failed != 1 {
		t.Errorf("%+v: %s", status, diff)
	}
	if err := s.Close("run.stage"); err != nil {
		t.Error(err)
	}
	if left, err := s.Known(); err != nil || len(left) > 0 {
		t.Errorf("there is left %v, %v", left, err)
	}
	if err := s.worker(t.Context(), "late"); err != nil {
		t.Errorf("a worker of a work that is over: %v", err)
	}
}

// TestWroteElsewhere: a program that writes into its input, and nothing to its output, is
// told so in the log of its datum, in either mode.
func TestWroteElsewhere(t *testing.T) {
	const wrong = `echo > $in/began; until [ $in/made -nt $in/began ]; do echo > $in/made; done`
	for name, p := range map[string]shift.Program{
		"a program for each": shell(`in=$MUSTER_INPUT_IN; ` + wrong),
		"one for all": {Batch: true, Inputs: []string{"in"}, Command: []string{"sh", "-c",
			`while line=$($MUSTER_NEXT) && [ -n "$line" ]; do in=$(echo "$line" | sed 's/.*"in":"\([^"]*\)".*/\1/'); ` + wrong + `; done`}},
	} {
		t.Run(name, func(t *testing.T) {
			s, said := open(t), ""
			spec := foreman.Spec{Name: "run.stage", Program: p, Tries: 1, Fetch: s.fetch, Datums: []foreman.Datum{{ID: "1", Name: "a"}}}
			spec.Record = func(_ context.Context, results []foreman.Result) error {
				text, err := os.ReadFile(filepath.Join(results[0].Folder, shift.LogFile))
				said = string(text)
				return err
			}
			w, err := s.Open(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.worker(t.Context(), "0"); err != nil {
				t.Fatal(err)
			}
			if status := s.over(w); status.Computed != 1 || !strings.Contains(said, "it wrote nothing to its output, and wrote $MUSTER_INPUT_IN/") {
				t.Errorf("%+v; the log says %q", status, said)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want map[string]string
	}{
		"all by one process": {
			`while d=$($MUSTER_NEXT) && [ -n "$d" ]; do
			   out=$(echo "$d" | sed 's/.*"output":"\([^"]*\)".*/\1/')
			   echo $$$$ > $out/made
			 done`, map[string]string{"a": "same", "b": "same", "c": "same"}},
		"one that dies of a datum": {
			`while d=$($MUSTER_NEXT) && [ -n "$d" ]; do
			   case "$d" in *'"name":"b"'*) exit 3;; esac
			   out=$(echo "$d" | sed 's/.*"output":"\([^"]*\)".*/\1/')
			   echo fine > $out/made
			 done`, map[string]string{"a": "fine\n", "b": "the program ended with exit code 3", "c": "fine\n"}},
		"one that dies between asking and the answer": {
			// It waits until a datum is begun for it, and never reads which.
			`before=$(ls $WORK/*/begun 2>/dev/null); echo next > $(dirname $MUSTER_NEXT)/ask
			 while :; do
			   for f in $WORK/*/begun; do
			     [ -e "$f" ] && case "$before" in *"$f"*) ;; *) exit 4;; esac
			   done
			 done`,
			map[string]string{"a": "the program ended with exit code 4", "b": "the program ended with exit code 4", "c": "the program ended with exit code 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			p := shell("WORK=" + s.Folder("run.stage") + "; " + c.line)
			p.Batch = true
			w := s.work(p, "a", "b", "c")
			if err := s.worker(t.Context(), "0"); err != nil {
				t.Fatal(err)
			}
			s.over(w)
			if c.want["a"] == "same" {
				if s.recorded["a"] == "" || s.recorded["a"] != s.recorded["b"] || s.recorded["b"] != s.recorded["c"] {
					t.Errorf("the processes were %v", s.recorded)
				}
				return
			}
			if diff := cmp.Diff(c.want, s.recorded); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBatchWithoutAsking(t *testing.T) {
	s := open(t)
	p := shell("exit 0")
	p.Batch = true
	s.work(p, "a")
	if err := s.worker(t.Context(), "0"); err == nil || !strings.Contains(err.Error(), "MUSTER_NEXT") {
		t.Errorf("%v", err)
	}
}

// A worker that has to stop gives back what it has, and another goes on.
func TestStopped(t *testing.T) {
	s := open(t)
	gate := filepath.Join(t.TempDir(), "gate")
	w := s.work(shell(`[ -e `+gate+` ] || { touch `+gate+`.begun; sleep 60; }; echo x > $MUSTER_OUTPUT/made`), "a", "b", "c")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.worker(ctx, "0") }()
	s.await("something is begun", func() bool {
		_, err := os.Stat(gate + ".begun")
		return err == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, worker.ErrStopped) {
		t.Errorf("it ended with %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.worker(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if status := s.over(w); status.Computed != 3 || status.Failed != 0 {
		t.Errorf("%+v", status)
	}
}

func TestStrangers(t *testing.T) {
	s := open(t)
	s.work(shell("true"), "a")
	if err := os.WriteFile(filepath.Join(s.Folder("run.stage"), shift.TokenFile), []byte("guessed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.worker(t.Context(), "0"); err == nil || !strings.Contains(err.Error(), "not the token") {
		t.Errorf("%v", err)
	}
	if names, _ := s.Known(); !slices.Equal(names, []string{"run.stage"}) {
		t.Errorf("%v", names)
	}
}

// A datum that has the folder of another sees nothing of that, also where a process that
// the other left behind is still in it and writes there.
func TestFoldersAreUsedAgain(t *testing.T) {
	t.Run("by a worker of this process", func(t *testing.T) {
		s := open(t)
		foldersAreUsedAgain(t, s, func(member string) error { return s.worker(t.Context(), member) })
	})
	t.Run("by a process of its own", func(t *testing.T) {
		s := open(t)
		foldersAreUsedAgain(t, s, func(string) error { return dedicated(s.Folder("run.stage")).Run() })
	})
}

func foldersAreUsedAgain(t *testing.T, s *shop, compute func(member string) error) {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "gate")
	p := shell(`before() { for d in $MUSTER_INPUT_IN/.. $MUSTER_INPUT_IN $MUSTER_OUTPUT; do echo $(ls -A $d); done; }
		case $MUSTER_DATUM in
		a)	echo said; touch $MUSTER_INPUT_IN/left $MUSTER_INPUT_IN/../left $MUSTER_OUTPUT/../left
			for d in $MUSTER_INPUT_IN $MUSTER_OUTPUT; do
				(cd $d; setsid sh -c "touch ` + gate + `.up-${d##*/}; until [ -e ` + gate + ` ]; do sleep 0.05; done; touch late; echo x >> ` + gate + `.late" &)
			done
			# Before they have a session of their own, they would be ended with this one.
			until [ $(ls ` + gate + `.up-* 2> ` + gate + `.no | wc -l) = 2 ]; do sleep 0.05; done
			before > $MUSTER_OUTPUT/made;;
		b)	touch ` + gate + `; until [ $(wc -l < ` + gate + `.late) = 2 ]; do sleep 0.05; done
			before > $MUSTER_OUTPUT/made;;
		esac`)
	if err := os.WriteFile(gate+".late", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.logs = map[string]string{}
	w := s.work(p, "a")
	if err := compute("0"); err != nil {
		t.Fatal(err)
	}
	spare := func() []string {
		found, _ := filepath.Glob(filepath.Join(s.Folder("run.stage"), ".spare-*"))
		return found
	}
	s.await("the folder of the first is spare", func() bool { return len(spare()) == 1 })
	first, err := os.Lstat(spare()[0])
	if err != nil {
		t.Fatal(err)
	}
	w.Add([]foreman.Datum{{ID: "1", Name: "b"}})
	s.await("the files of the second are there", func() bool { return len(spare()) == 0 && w.Idle() })
	second, err := os.Lstat(filepath.Join(s.Folder("run.stage"), "1"))
	if err != nil || !os.SameFile(first, second) {
		t.Errorf("the second has a folder of its own (%v)", err)
	}
	if err := compute("1"); err != nil {
		t.Fatal(err)
	}
	s.over(w)
	if diff := cmp.Diff("in\nname\nmade\n", s.recorded["b"]); diff != "" {
		t.Errorf("the second saw something else: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "said\n", "b": ""}, s.logs); diff != "" {
		t.Errorf("the logs are others: %s", diff)
	}
}

// What a program was shown is another datum's once nothing of it is left, and new as
// long as something is.
func TestWhatIsShownIsUsedAgain(t *testing.T) {
	for _, test := range []struct {
		name, line string
		want       bool
	}{
		{"nothing is left", `:`, true},
		{"what was left has ended", `(sleep 0.05 & echo $! > $PIDS.over); while grep -q '^State:.[^Z]' /proc/$(cat $PIDS.over)/status; do sleep 0.01; done`, true},
		// Before they have a session of their own, they would be ended with the program.
		{"another session", `setsid sh -c 'echo $$$$ > $PIDS; exec sleep 60' & until [ -s $PIDS ]; do sleep 0.01; done`, false},
		{"an orphan of another group", `(setsid sh -c 'echo $$$$ > $PIDS; exec sleep 60' &); until [ -s $PIDS ]; do sleep 0.01; done`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			pids := filepath.Join(t.TempDir(), "pids")
			t.Setenv("PIDS", pids)
			t.Cleanup(func() { endAll(t, pids) })
			w := s.work(shell(`cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made; [ $MUSTER_DATUM != a ] || { `+test.line+`; }`), "a")
			if err := dedicated(s.Folder("run.stage")).Run(); err != nil {
				t.Fatal(err)
			}
			spares := filepath.Join(s.Folder("run.stage"), ".spare-*")
			s.await("its folder is spare", func() bool { found, _ := filepath.Glob(spares); return len(found) == 1 })
			found, _ := filepath.Glob(spares)
			for _, name := range []string{"in/in", "out", "log"} {
				if _, err := os.Lstat(filepath.Join(found[0], name)); (err == nil) != test.want {
					t.Errorf("%s is kept: %v, want %v", name, err == nil, test.want)
				}
				if list, _ := os.ReadDir(filepath.Join(found[0], name)); len(list) > 0 {
					t.Errorf("%s has %v", name, list)
				}
			}
			w.Add([]foreman.Datum{{ID: "1", Name: "b"}})
			if err := dedicated(s.Folder("run.stage")).Run(); err != nil {
				t.Fatal(err)
			}
			if s.over(w); s.recorded["b"] != "b" {
				t.Errorf("b is %q", s.recorded["b"])
			}
		})
	}
}

// What a program keeps of its folders is not changed by the next.
func TestWhatIsKeptIsNotTheNextOnes(t *testing.T) {
	s := open(t)
	kept := filepath.Join(t.TempDir(), "kept")
	t.Setenv("KEPT", kept)
	w := s.work(shell(`case $MUSTER_DATUM in
		a)	: > $MUSTER_OUTPUT/made; ln $MUSTER_OUTPUT/../log $KEPT; chmod 777 $MUSTER_OUTPUT/.. $MUSTER_INPUT_IN/..;;
		b)	echo said by b; stat -c %a $MUSTER_OUTPUT/.. $MUSTER_INPUT_IN/.. > $MUSTER_OUTPUT/made;;
		esac`), "a")
	folder := s.Folder("run.stage")
	s.await("the first is there", w.Idle)
	var want string
	for _, name := range []string{".", "in"} {
		info, err := os.Lstat(filepath.Join(folder, "0", name))
		if err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("%o\n", info.Mode().Perm())
	}
	if err := dedicated(folder).Run(); err != nil {
		t.Fatal(err)
	}
	s.await("the first is cleared away", func() bool {
		_, err := os.Lstat(filepath.Join(folder, "0"))
		return errors.Is(err, fs.ErrNotExist)
	})
	w.Add([]foreman.Datum{{ID: "1", Name: "b"}})
	if err := dedicated(folder).Run(); err != nil {
		t.Fatal(err)
	}
	s.over(w)
	if text, err := os.ReadFile(kept); err != nil || len(text) > 0 {
		t.Errorf("the log that the first kept says %q (%v), and the second said it", text, err)
	}
	if diff := cmp.Diff(want, s.recorded["b"]); diff != "" {
		t.Errorf("the folders of the second have other modes: %s", diff)
	}
}

// endAll ends the processes that a file names.
func endAll(t *testing.T, path string) {
	t.Helper()
	text, _ := os.ReadFile(path) // or there are none
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Errorf("process %s had ended", word)
		}
	}
}

// A foreman that is started anew knows nothing of the folders that were spare.
func TestSpareFoldersOfAForemanBefore(t *testing.T) {
	s := open(t)
	left := filepath.Join(s.Folder("run.stage"), ".spare-7", "in", "in", "name")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	w := s.work(shell("cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made"), "a")
	if err := s.worker(t.Context(), "0"); err != nil {
		t.Fatal(err)
	}
	if s.over(w); s.recorded["a"] != "a" {
		t.Errorf("a is %q", s.recorded["a"])
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("the folder is still there")
	}
}

// TestSpoiled: if the foreman cannot record the output of a datum, that datum fails, and the
// foreman records the other datums.
func TestSpoiled(t *testing.T) {
	s := open(t)
	spec := foreman.Spec{Name: "run.stage", Program: shell(`cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made`), Tries: 3, Fetch: s.fetch}
	for i, name := range []string{"a", "spoiled", "c"} {
		spec.Datums = append(spec.Datums, foreman.Datum{ID: fmt.Sprint(i), Name: name})
	}
	spec.Record = func(ctx context.Context, results []foreman.Result) error {
		for i := range results {
			if r := &results[i]; r.Name == "spoiled" && !r.Failed() {
				return fmt.Errorf("recording results: %w", &foreman.SpoiledError{ID: r.Datum.ID, Why: errors.New("made is a pipe")})
			}
		}
		return s.record(ctx, results)
	}
	w, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.worker(t.Context(), "worker/0"); err != nil {
		t.Fatal(err)
	}
	status := s.over(w)
	want := map[string]string{"a": "a", "spoiled": "its output cannot be kept: made is a pipe", "c": "c"}
	if diff := cmp.Diff(want, s.recorded); diff != "" || status.Computed != 2 || status.Failed != 1 || status.Problem != "" {
		t.Errorf("%+v: %s", status, diff)
	}
}
