package foreman

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/foreman/excerpt"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// planted are things that a program can put in the place of anything in the folder of its datum.
// host is a folder of the machine's, with a file victim.
var planted = map[string]func(path, host string) error{
	"a link to a file":   func(path, host string) error { return os.Symlink(filepath.Join(host, "victim"), path) },
	"a link to a folder": func(path, host string) error { return os.Symlink(host, path) },
	"a link to nothing":  func(path, host string) error { return os.Symlink(filepath.Join(host, "new"), path) },
	"a link to itself":   func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
	"a link to a neighbour": func(path, _ string) error {
		return os.Symlink(filepath.Join("..", "neighbour"), path)
	},
	"a hard link": func(path, host string) error { return os.Link(filepath.Join(host, "victim"), path) },
	"a pipe":      func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	"a socket":    func(path, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
	"a device": func(path, _ string) error {
		return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) // which never ends
	},
	"a folder": func(path, host string) error {
		return errors.Join(os.MkdirAll(filepath.Join(path, "full"), 0o755), os.Symlink(host, filepath.Join(path, "link")))
	},
	"a file": func(path, _ string) error { return os.WriteFile(path, []byte("planted"), 0o600) },
	"a huge file": func(path, _ string) error {
		return errors.Join(os.WriteFile(path, []byte("{"), 0o600), os.Truncate(path, 1<<40))
	},
}

// entries are the names that the foreman uses in the folder of a datum.
var entries = []string{
	shift.InFolder, shift.OutFolder, shift.LogFile, shift.GivenFile, shift.BegunFile, shift.OutcomeFile, shift.SecretFile, unmarked,
	"in/a", "given.new", "secret.new", "something",
}

// estate is a folder of a work with the folder of a datum. The folders beside them must not change.
type estate struct {
	*testing.T
	host, work, datum string
}

func newEstate(t *testing.T) *estate {
	top := t.TempDir()
	e := &estate{T: t, host: filepath.Join(top, "host"), work: filepath.Join(top, "work")}
	e.datum = filepath.Join(e.work, "0")
	for _, folder := range []string{e.host, filepath.Join(e.work, "neighbour")} {
		must(t, os.MkdirAll(folder, 0o755))
		must(t, os.WriteFile(filepath.Join(folder, "victim"), []byte("victim"), 0o640))
		must(t, os.Chmod(folder, 0o750))
	}
	e.afresh()
	return e
}

// afresh makes the folder of the datum anew, and removes the files that acts left beside it.
func (e *estate) afresh() {
	e.Helper()
	list, err := os.ReadDir(e.work)
	must(e.T, err)
	for _, name := range list {
		if name.Name() != "neighbour" {
			must(e.T, os.RemoveAll(filepath.Join(e.work, name.Name())))
		}
	}
	for _, folder := range []string{"", "in", "in/a", "out"} {
		must(e.T, os.Mkdir(filepath.Join(e.datum, folder), 0o755))
	}
}

// plant puts something in the place of an entry.
func (e *estate) plant(entry string, what func(path, host string) error) {
	e.Helper()
	path := filepath.Join(e.datum, entry)
	must(e.T, os.RemoveAll(path))
	err := what(path, e.host)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EFBIG) {
		e.Skipf("it cannot be made here: %v", err)
	}
	must(e.T, err)
}

// unharmed checks the folders that must not change.
func (e *estate) unharmed() {
	e.Helper()
	for _, folder := range []string{e.host, filepath.Join(e.work, "neighbour")} {
		list, err := os.ReadDir(folder)
		if err != nil || len(list) != 1 {
			e.Errorf("%s has %v, %v", folder, list, err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "victim"))
		if err != nil || string(text) != "victim" {
			e.Errorf("%q, %v", text, err)
		}
		for path, want := range map[string]os.FileMode{folder: 0o750, filepath.Join(folder, "victim"): 0o640} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				e.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
			}
		}
	}
}

// lent is a work that lends the datum of an estate.
func (e *estate) lent() *Work {
	s := Spec{Name: "run.stage", Lent: true, Datums: []Datum{{ID: "0", Name: "0"}}, Fetch: func(_ context.Context, _ Datum, into *os.Root) error {
		return errors.Join(into.MkdirAll("a", 0o755), into.WriteFile("a/file", []byte("of the datum"), 0o600))
	}}
	w := &Work{foreman: &Foreman{o: Options{Now: time.Now}}, spec: s, dir: e.work, ledger: newLedger(s.Datums, 1, false)}
	w.shelf.dir, w.shelf.inputs = e.work, []string{"a"}
	return w
}

// acts are everything that the foreman does with the folder of a datum.
var acts = map[string]func(e *estate) error{
	"readOutcome": func(e *estate) error {
		if o, ok := readOutcome(e.datum); ok && o.ID != "planted" {
			e.Errorf("%+v", o)
		}
		return nil
	},
	"given":    func(e *estate) error { given(e.datum); return nil },
	"give out": func(e *estate) error { return shift.Advance(e.datum, unmarked, shift.GivenFile) },
	"begin":    func(e *estate) error { return shift.Advance(e.datum, shift.GivenFile, shift.BegunFile) },
	"conclude": func(e *estate) error { return shift.Conclude(e.datum, []byte(`{"id":"planted"}`)) },
	"shelve": func(e *estate) error {
		s := shelf{dir: e.work, inputs: []string{"a"}}
		return errors.Join(s.give(e.datum, true), os.RemoveAll(e.datum))
	},
	"shelve a folder as it was made": func(e *estate) error {
		s := shelf{dir: e.work, inputs: []string{"a"}}
		made := filepath.Join(e.work, "made")
		lay(e.T, made, "in/a/", "out/")
		learn(e.T, &s, made)
		must(e.T, os.Chmod(e.datum, 0o755))
		return errors.Join(s.give(e.datum, true), os.RemoveAll(e.datum))
	},
	"fetch anew": func(e *estate) error {
		if err := e.lent().fetch(e.Context(), 0); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(e.datum, "in/a/file"))
		if err != nil || string(text) != "of the datum" {
			e.Errorf("%q, %v", text, err)
		}
		return nil
	},
	"lend":   func(e *estate) error { return e.lent().Lend() },
	"secret": func(e *estate) error { _, err := e.lent().secretFor(e.datum, &person{}); return err },
	"settle": func(e *estate) error {
		from := filepath.Join(e.work, "from")
		lay(e.T, from, "out/made", "log", "outcome.json")
		return settle(from, e.datum, true)
	},
	"log": func(e *estate) error {
		from := filepath.Join(e.work, "from")
		lay(e.T, from, "log")
		return copyLog(from, e.datum)
	},
	"log from there": func(e *estate) error {
		to := filepath.Join(e.work, "to")
		must(e.T, os.Mkdir(to, 0o755))
		return copyLog(e.datum, to)
	},
	"record": func(e *estate) error { var p part; readJSON(filepath.Join(e.datum, "outcome.json"), &p); return nil },
	"outcome that was brought": func(e *estate) error {
		_, err := broughtOutcome(e.datum, "0")
		if _, refused := errors.AsType[*parcel.Refusal](err); err != nil && !refused {
			e.Errorf("it comes again for ever: %v", err)
		}
		return err
	},
	"clear away": func(e *estate) error { return e.lent().clearAway(e.datum, true) },
}

// TestHostileFolder: a program puts each kind of thing into the folder of its datum. The foreman
// reads, writes and removes nothing elsewhere, and does not wait.
func TestHostileFolder(t *testing.T) {
	some := entries
	if testing.Short() {
		some = entries[:6]
	}
	for what, plant := range planted {
		for _, entry := range some {
			t.Run(what+" as "+entry, func(t *testing.T) {
				e := newEstate(t)
				for name, act := range acts {
					e.afresh()
					e.plant(entry, plant)
					done := make(chan error, 1)
					go func() { done <- act(e) }()
					select {
					case err := <-done:
						if err != nil && strings.Contains(err.Error(), "victim\"") {
							t.Errorf("%s: %v", name, err)
						}
					case <-time.After(20 * time.Second):
						t.Fatalf("%s waits", name)
					}
					e.unharmed()
				}
			})
		}
	}
}

// TestHostileMark: no earlier program can write to the mark that the next datum gets.
func TestHostileMark(t *testing.T) {
	for what, plant := range planted {
		t.Run(what, func(t *testing.T) {
			e := newEstate(t)
			e.plant(unmarked, plant)
			text, err := json.Marshal(shift.Outcome{ID: "0"})
			must(t, err)
			err = shift.Advance(e.datum, unmarked, shift.GivenFile)
			if err == nil {
				err = errors.Join(shift.Advance(e.datum, shift.GivenFile, shift.BegunFile), shift.Conclude(e.datum, text))
			}
			e.unharmed()
			if what == "a folder" { // with something in it: the datum fails
				if err == nil {
					t.Error("a folder became the mark")
				}
				return
			}
			must(t, err)
			if o, ok := readOutcome(e.datum); !ok || o.ID != "0" {
				t.Errorf("%+v, %v", o, ok)
			}
		})
	}
}

// TestHostileParts: unite uses nothing outside of the parts. A tenant may write to the store of the
// parts, so that a part can hold everything that a checkout writes.
func TestHostileParts(t *testing.T) {
	for what, plant := range planted {
		for _, entry := range []string{"one/out", "one/out/x", "one/part.json", "one"} {
			t.Run(what+" as "+entry, func(t *testing.T) {
				e := newEstate(t)
				from, to := filepath.Join(e.datum, "parts"), filepath.Join(e.datum, "united")
				lay(t, from, "one/out/x", "one/out/y", "two/out/y", "two/out/z")
				must(t, os.Mkdir(to, 0o755))
				e.plant("parts/"+entry, plant)
				var parts []part
				for _, name := range []string{"one/0", "two/0"} {
					parts = append(parts, part{person: person{Member: name}})
					must(t, os.Rename(filepath.Join(from, strings.TrimSuffix(name, "/0")), filepath.Join(from, strings.Replace(name, "/", "-", 1))))
				}
				err := unite(to, from, parts)
				var p part
				if readJSON(filepath.Join(from, "one-0", partFile), &p) && p.Pod != "" {
					t.Errorf("%+v", p)
				}
				e.unharmed()
				if list, failed := os.ReadDir(to); failed != nil || err == nil && len(list) < 2 {
					t.Errorf("%v, %v, %v", list, failed, err)
				}
			})
		}
	}
}

// TestChangedMeanwhile: a program that was left behind changes the folder of its datum while the
// foreman works in it.
func TestChangedMeanwhile(t *testing.T) {
	e := newEstate(t)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		temp := filepath.Join(e.work, "temp")
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, what := range []string{"a link to a folder", "a link to a file", "a pipe", "a folder", "a link to a neighbour"} {
				_ = os.RemoveAll(temp)
				_ = planted[what](temp, e.host)
				plant(temp, e.datum, entries[i%len(entries)])
			}
		}
	})
	end := time.Now().Add(time.Second)
	if testing.Short() {
		end = time.Now().Add(200 * time.Millisecond)
	}
	work := e.lent()
	for n := 0; time.Now().Before(end); n++ {
		if err := work.fetch(t.Context(), 0); err == nil && n%3 == 0 {
			_ = work.Lend()
			_, _ = work.secretFor(e.datum, &person{})
			_ = shift.Advance(e.datum, unmarked, shift.GivenFile)
			_ = shift.Advance(e.datum, shift.GivenFile, shift.BegunFile)
			_ = shift.Conclude(e.datum, []byte("{}"))
			_, _ = readOutcome(e.datum)
		}
		s := shelf{dir: e.work, inputs: []string{"a"}}
		if err := s.give(e.datum, true); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, os.ErrNotExist) {
			t.Logf("shelving: %v", err)
		}
		for _, name := range s.names {
			must(t, removeAll(filepath.Join(e.work, name)))
		}
	}
	close(stop)
	group.Wait()
	e.unharmed()
}

// plant puts a file or folder in the place of an entry of a datum. A link that an earlier one left above the
// entry is not followed: this program itself would write where it leads.
func plant(temp, datum, entry string) {
	above, err := unix.Openat2(unix.AT_FDCWD, filepath.Join(datum, filepath.Dir(entry)), &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return
	}
	if unix.Renameat2(unix.AT_FDCWD, temp, above, filepath.Base(entry), unix.RENAME_EXCHANGE) != nil {
		_ = unix.Renameat2(unix.AT_FDCWD, temp, above, filepath.Base(entry), 0)
	}
	_ = unix.Close(above)
}

// TestLongLogs: the excerpt of a log becomes the log of the datum, and all of it where it is short.
func TestLongLogs(t *testing.T) {
	for name, c := range map[string]struct {
		before int64
		says   string
	}{
		"short": {100, ""},
		"full":  {excerpt.Most - 4, ""},
		"long":  {excerpt.Most + 100, "\n[muster left out 104 bytes of this log here: it is kept with at most 16777216]\n"},
		"huge":  {1 << 40, "\n[muster left out 1099494850564 bytes of this log here: it is kept with at most 16777216]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			log, err := os.Create(filepath.Join(from, shift.LogFile))
			must(t, err)
			if _, err := log.WriteAt([]byte("end\n"), c.before); err != nil {
				t.Skipf("the file system has no such files: %v", err)
			}
			must(t, log.Close())
			must(t, copyLog(from, to))
			got, err := os.ReadFile(filepath.Join(to, shift.LogFile))
			must(t, err)
			want := c.before + 4
			if c.says != "" {
				want = excerpt.Most + int64(len(c.says))
			}
			if int64(len(got)) != want || !strings.Contains(string(got), c.says) || !strings.HasSuffix(string(got), "end\n") {
				t.Errorf("%d bytes: %.200q", len(got), got)
			}
		})
	}
}
