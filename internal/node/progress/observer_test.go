package progress

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// desk is a folder of checkpoints and its observer.
type desk struct {
	t   *testing.T
	dir string
	o   *Observer
	// now is the time of the next look.
	now time.Time
	// made is when the test began.
	made time.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, dir: t.TempDir(), now: time.Now(), made: time.Now()}
	d.o = New(Options{Checkpoints: d.dir, PIDs: func() []int { return []int{os.Getpid()} }})
	t.Cleanup(d.o.Close)
	return d
}

// eachWay runs a test with an observer that walks through the folder, and with one that is told its entries.
func eachWay(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Run("walked", func(t *testing.T) { test(t, newDesk(t)) })
	t.Run("scanned", func(t *testing.T) {
		d := newDesk(t)
		d.o.walk.scan = func(skip, most int) ([]Entry, bool, error) { return list(t, d.dir, skip, most) }
		test(t, d)
	})
}

// list lists a folder, as a helper of a user does.
func list(t *testing.T, dir string, skip, most int) (out []Entry, more bool, err error) {
	t.Helper()
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if skip > 0 {
			skip--
			return nil
		}
		if len(out) == most {
			more = true
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		at, err := filepath.Rel(dir, path)
		stat, _ := info.Sys().(*syscall.Stat_t)
		out = append(out, Entry{Path: at, Device: stat.Dev, Inode: stat.Ino, Changed: changed(info).UnixNano(), Size: info.Size(), Regular: info.Mode().IsRegular()})
		return err
	})
	return out, more, err
}

// save writes a file that was complete so long before now.
func (d *desk) save(name string, ago time.Duration) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	put(d.t, path, "weights")
	old(d.t, path, ago)
}

func (d *desk) look() time.Time { return d.o.Look(d.now, never).Saved }

// want checks that the last save seen was so long before the test began.
func (d *desk) want(ago time.Duration) {
	d.t.Helper()
	got := d.look()
	if ago < 0 {
		if !got.IsZero() {
			d.t.Errorf("saved %v ago, want never", d.now.Sub(got))
		}
		return
	}
	if off := d.made.Sub(got) - ago; got.IsZero() || off < -time.Second || off > time.Second {
		d.t.Errorf("saved %v ago, want %v", d.made.Sub(got), ago)
	}
}

func TestWhatCountsAsSaved(t *testing.T) {
	const never = -1
	tests := []struct {
		name string
		make func(d *desk)
		want time.Duration
	}{
		{"nothing", func(*desk) {}, never},
		{"a file", func(d *desk) { d.save("model.pt", time.Minute) }, time.Minute},
		{"the newest", func(d *desk) { d.save("a.pt", time.Hour); d.save("b.pt", time.Minute); d.save("c.pt", 2*time.Hour) }, time.Minute},
		{"in a folder", func(d *desk) { d.save("checkpoint-500/rank0/model-00001-of-00002.safetensors", time.Minute) }, time.Minute},
		{"TensorFlow", func(d *desk) {
			d.save("ckpt-7.data-00000-of-00001", 63*time.Second)
			d.save("ckpt-7.index", 62*time.Second)
			d.save("checkpoint", time.Minute)
		}, time.Minute},
		{"only just", func(d *desk) { d.save("model.pt", time.Second) }, never},
		{"a temporary file", func(d *desk) { d.save("model.pt", time.Hour); d.save("model.pt.tmp", time.Minute) }, time.Hour},
		{"a temporary folder", func(d *desk) {
			d.save("model.pt", time.Hour)
			d.save("tmp-checkpoint-500/model.safetensors", time.Minute)
		}, time.Hour},
		{"Orbax under way", func(d *desk) { d.save("500.orbax-checkpoint-tmp-12/params", time.Minute) }, never},
		{"logs", func(d *desk) {
			d.save("model.pt", time.Hour)
			d.save("train.log", time.Second)
			d.save("events.out.tfevents.1700000000.box.1.0", time.Second)
			d.save("wandb/run/files/x", time.Second)
			d.save("metrics.csv", time.Second)
		}, time.Hour},
		{"empty", func(d *desk) {
			put(d.t, filepath.Join(d.dir, "done"), "")
			old(d.t, filepath.Join(d.dir, "done"), time.Minute)
		}, never},
		{"a link", func(d *desk) {
			other := d.t.TempDir()
			put(d.t, filepath.Join(other, "x"), "x")
			old(d.t, filepath.Join(other, "x"), time.Minute)
			_ = os.Symlink(filepath.Join(other, "x"), filepath.Join(d.dir, "x"))
			_ = os.Symlink(other, filepath.Join(d.dir, "folder"))
			_ = os.Symlink(d.dir, filepath.Join(d.dir, "loop"))
		}, never},
		{"from the future", func(d *desk) { d.save("model.pt", -time.Hour); d.now = d.now.Add(time.Minute) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachWay(t, func(_ *testing.T, d *desk) {
				tt.make(d)
				d.want(tt.want)
			})
		})
	}
}

// A save that takes minutes counts only once it is complete: while the file is
// open for writing it does not, however long it is left alone.
func TestASaveUnderWayDoesNotCount(t *testing.T) {
	for _, kind := range []string{"this process", "another process"} {
		t.Run(kind, func(t *testing.T) {
			d := newDesk(t)
			d.save("before.pt", time.Hour)
			d.want(time.Hour)
			path := filepath.Join(d.dir, "model.pt")
			var end func()
			if kind == "this process" {
				f, err := os.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = f.WriteString("half")
				end = func() { _ = f.Close() }
			} else {
				end = writer(t, d, path)
			}
			old(t, path, time.Minute)
			for range 5 {
				d.want(time.Hour)
				d.now = d.now.Add(12 * time.Second)
			}
			end()
			old(t, path, time.Minute)
			if got := d.look(); time.Since(got) < 50*time.Second || time.Since(got) > 70*time.Second {
				t.Errorf("saved %v ago, want a minute", time.Since(got))
			}
		})
	}
}

// writer is a process of its own that holds a file open for writing until it is
// told to end.
func writer(t *testing.T, d *desk, path string) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `exec 3>"$0"; echo half >&3; echo; read x`, path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	d.o.options.PIDs = func() []int { return []int{cmd.Process.Pid} }
	return func() { _ = in.Close(); _ = cmd.Wait() }
}

// What is open for ever is no save, and does not hide those that are; nor does
// a file that is only appended to, or only read.
func TestFilesThatAreAlwaysOpen(t *testing.T) {
	d := newDesk(t)
	hold := func(name string, flags int) {
		d.save(name, time.Hour)
		f, err := os.OpenFile(filepath.Join(d.dir, name), flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
	}
	hold("history", os.O_WRONLY|os.O_APPEND)
	hold("data.bin", os.O_RDONLY)
	d.save("a.pt", time.Minute)
	d.want(time.Minute)
	hold("memory.dat", os.O_RDWR)
	old(t, filepath.Join(d.dir, "memory.dat"), 10*time.Second)
	d.save("b.pt", 30*time.Second)
	if got := d.look(); d.now.Sub(got) < 50*time.Second {
		t.Error("it counts while another file is being written")
	}
	for range 80 {
		d.now = d.now.Add(12 * time.Second)
		d.look()
	}
	if got := time.Since(d.look()); got < 25*time.Second || got > 35*time.Second {
		t.Errorf("saved %v ago, want 30 s", got)
	}
}

// What saves every second is never left alone, and yet it saves.
func TestWhatSavesAllTheTime(t *testing.T) {
	t.Run("by renaming", func(t *testing.T) {
		d := newDesk(t)
		d.now = time.Now().Add(-time.Hour)
		for i := range 10 {
			d.now = d.now.Add(12 * time.Second)
			path := filepath.Join(d.dir, "model.pt")
			put(t, path+".new", fmt.Sprint(i))
			at := d.now.Add(-time.Second)
			if err := os.Chtimes(path+".new", at, at); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
			d.look()
		}
		if got := d.now.Sub(d.look()); got > time.Minute {
			t.Errorf("saved %v ago, want less than a minute", got)
		}
	})
	t.Run("in place, and never whole", func(t *testing.T) {
		d := newDesk(t)
		d.now = time.Now().Add(-time.Hour)
		for range 10 {
			d.now = d.now.Add(12 * time.Second)
			path := filepath.Join(d.dir, "model.pt")
			put(t, path, "x")
			at := d.now.Add(-time.Second)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
			d.look()
		}
		if got := d.look(); !got.IsZero() {
			t.Errorf("saved %v ago", d.now.Sub(got))
		}
	})
}

// A report that it saved wins over what is seen.
func TestWhoSaysThatItSavedIsBelieved(t *testing.T) {
	d := newDesk(t)
	root := t.TempDir()
	d.o.options.Root, d.o.options.Report = root, "report"
	d.save("model.pt", time.Minute)
	d.want(time.Minute)
	put(t, filepath.Join(root, "report"), fmt.Sprintf("0.3 saved=%d", time.Now().Add(-30*time.Minute).Unix()))
	old(t, filepath.Join(root, "report"), time.Second)
	d.want(30 * time.Minute)
	d.save("scratch.pt", 10*time.Second)
	d.want(30 * time.Minute)
	put(t, filepath.Join(root, "report"), fmt.Sprintf("0.3 saved=%d", time.Now().Add(time.Hour).Unix()))
	old(t, filepath.Join(root, "report"), 20*time.Second)
	d.want(20 * time.Second) // not in the future
}

// A folder of very many files costs a bounded amount of work a look, and all of
// it is seen in time.
func TestAFolderOfVeryManyFiles(t *testing.T) { eachWay(t, veryManyFiles) }

func veryManyFiles(t *testing.T, d *desk) {
	const files = 3 * budget
	for i := range files {
		path := filepath.Join(d.dir, fmt.Sprintf("%02d", i%50), fmt.Sprint(i))
		if i < 50 {
			put(t, path, "x")
		} else if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if i%97 == 0 {
			old(t, path, time.Hour)
		}
	}
	d.now = time.Now().Add(time.Hour)
	for i := range 8 {
		f, err := d.o.walk.look(d.now)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.files) > budget {
			t.Fatalf("look %d took in %d files", i, len(f.files))
		}
		if f.whole {
			t.Fatalf("look %d saw all", i)
		}
	}
	if got := d.o.Look(d.now, never).Saved; time.Since(got) > time.Minute {
		t.Errorf("saved %v ago", time.Since(got))
	}
}

func TestTheLastLook(t *testing.T) {
	tests := []struct {
		name    string
		orderly bool
		ago     time.Duration
		want    time.Duration
	}{
		{"saved when it was told to stop", true, 0, 0},
		{"cut short while it wrote", false, 0, time.Hour},
		{"cut short long after", false, time.Minute, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			d.save("before.pt", time.Hour)
			d.save("model.pt", tt.ago)
			got := d.now.Sub(d.o.Last(d.now.Add(10*time.Millisecond), tt.orderly).Saved)
			if got < tt.want-2*time.Second || got > tt.want+2*time.Second {
				t.Errorf("saved %v ago, want %v", got, tt.want)
			}
		})
	}
}

// What an earlier observer knew is not forgotten.
func TestKnownBefore(t *testing.T) {
	at := time.Now().Add(-10 * time.Minute)
	o := New(Options{Checkpoints: t.TempDir(), PIDs: func() []int { return nil }, Known: State{Said: true, Done: 0.5, Saved: at}})
	if s := o.Look(time.Now(), never); !s.Saved.Equal(at) || s.Done != 0.5 {
		t.Errorf("got %+v", s)
	}
}

func BenchmarkIdleLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 200 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	o := New(Options{Checkpoints: dir, PIDs: func() []int { return []int{os.Getpid()} }})
	now := time.Now().Add(time.Minute)
	for b.Loop() {
		o.Look(now, never)
	}
}

func BenchmarkLookAtTooManyFiles(b *testing.B) {
	dir := b.TempDir()
	for i := range 20000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	o := New(Options{Checkpoints: dir, PIDs: func() []int { return []int{os.Getpid()} }})
	defer o.Close()
	now := time.Now().Add(time.Minute)
	for b.Loop() {
		o.Look(now, never)
	}
}

// TestScansAreBounded: a folder without end is looked at from its beginning again, and an error of the
// scan changes nothing.
func TestScansAreBounded(t *testing.T) {
	skips, fails := []int{}, false
	w := walk{scan: func(skip, most int) ([]Entry, bool, error) {
		skips = append(skips, skip)
		if fails {
			return nil, false, fs.ErrPermission
		}
		return make([]Entry, most), true, nil
	}}
	for range farthest/budget + 2 {
		if f, err := w.look(time.Now()); err != nil || f.whole {
			t.Fatalf("%v %v", f.whole, err)
		}
	}
	if last := skips[len(skips)-1]; last != budget || slices.Max(skips) >= farthest {
		t.Errorf("skipped %v", skips)
	}
	fails = true
	if _, err := w.look(time.Now()); err == nil {
		t.Error("an error is not told")
	}
}
