package progress

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// never is a pause for which there is never time, and always one that is over
// at once.
func never(time.Duration) bool  { return false }
func always(time.Duration) bool { return true }

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// old makes a file look as if it had been written so long ago.
func old(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	at := time.Now().Add(-ago)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestReportsThatAreNoFiles(t *testing.T) {
	tests := []struct {
		name, want string
		make       func(path string) error
	}{
		{"a folder", "a folder", func(p string) error { return os.Mkdir(p, 0o755) }},
		{"a pipe", "a pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{"a link out", "a symbolic link", func(p string) error { return os.Symlink("/etc/hostname", p) }},
		{"a link inside", "a symbolic link", func(p string) error { return os.Symlink("other", p) }},
		{"a link to itself", "a symbolic link", func(p string) error { return os.Symlink("report", p) }},
		{"a device", "a symbolic link", func(p string) error { return os.Symlink("/dev/zero", p) }},
		{"a gigabyte", "1073741824 bytes", func(p string) error {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(p, 1<<30)
		}},
		{"unreadable nonsense", "no text", func(p string) error { return os.WriteFile(p, []byte{0, 1, 2, 255}, 0o600) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "progress"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(filepath.Join(root, "progress", "report")); err != nil {
				t.Fatal(err)
			}
			o := New(Options{Root: root, Report: "progress/report"})
			s := o.Look(time.Now().Add(time.Minute), never)
			if s.Said || !strings.Contains(s.Problem, tt.want) {
				t.Errorf("got %+v, want a problem with %q", s, tt.want)
			}
		})
	}
	t.Run("a socket", func(t *testing.T) {
		root := t.TempDir()
		l, err := net.Listen("unix", filepath.Join(root, "report"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if s := New(Options{Root: root, Report: "report"}).Look(time.Now(), never); !strings.Contains(s.Problem, "a socket") {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("its folder is a link", func(t *testing.T) {
		root, other := t.TempDir(), t.TempDir()
		put(t, filepath.Join(other, "report"), "0.9")
		if err := os.Symlink(other, filepath.Join(root, "progress")); err != nil {
			t.Fatal(err)
		}
		s := New(Options{Root: root, Report: "progress/report"}).Look(time.Now().Add(time.Minute), never)
		if s.Said || !strings.Contains(s.Problem, "it has to be a folder") {
			t.Errorf("got %+v", s)
		}
	})
}

func TestAReportThatIsTornIsNotRead(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "report")
	now := time.Now()
	t.Run("none", func(t *testing.T) {
		if _, _, err := readReport(root, "report", now, never); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("truncated before it is written", func(t *testing.T) {
		put(t, path, "")
		if r, _, err := readReport(root, "report", now, always); err != nil || !r.Empty() {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("half, then whole", func(t *testing.T) {
		put(t, path, "1")
		steps := []string{"12", "1200/500", "1200/50000"}
		pause := func(time.Duration) bool {
			if len(steps) > 0 {
				// In place, as a program does that writes piece by piece.
				if err := os.WriteFile(path, []byte(steps[0]), 0o600); err != nil {
					t.Error(err)
				}
				steps = steps[1:]
			}
			return true
		}
		r, _, err := readReport(root, "report", time.Now(), pause)
		if err != nil || r.Done != 0.024 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{"never still, without an end": {"0.5", false}, "never still, with an end": {"0.5\n", true}, "never still, JSON": {`{"done":0.5}`, true}} {
		t.Run(name, func(t *testing.T) {
			put(t, path, tt.text)
			n := 0
			r, _, err := readReport(root, "report", time.Now(), func(time.Duration) bool {
				n++
				if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
					t.Error(err)
				}
				at := time.Now().Add(-time.Duration(n) * time.Millisecond)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Error(err)
				}
				return true
			})
			if tt.ok != (err == nil) || tt.ok && r.Done != 0.5 || !tt.ok && !errors.Is(err, errBusy) {
				t.Errorf("got %+v, %v", r, err)
			}
			if n > rereads {
				t.Errorf("read %d times", n)
			}
		})
	}
	t.Run("replaced each time", func(t *testing.T) {
		put(t, path, "0.5")
		r, _, err := readReport(root, "report", time.Now(), func(time.Duration) bool {
			put(t, path+".new", "0.6")
			if err := os.Rename(path+".new", path); err != nil {
				t.Error(err)
			}
			return true
		})
		if err != nil || r.Done != 0.6 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("no time to wait", func(t *testing.T) {
		put(t, path, "1")
		if r, _, err := readReport(root, "report", time.Now(), never); err == nil {
			t.Errorf("read %+v", r)
		}
	})
}

func TestWhatWasReportedStays(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "report")
	o := New(Options{Root: root, Report: "report"})
	later := time.Now().Add(time.Minute)
	put(t, path, "0.4")
	if s := o.Look(later, never); !s.Said || s.Done != 0.4 || s.Problem != "" || s.Reported.IsZero() {
		t.Fatalf("got %+v", s)
	}
	put(t, path, "nearly there")
	if s := o.Look(later, never); s.Done != 0.4 || s.Problem == "" {
		t.Errorf("got %+v", s)
	}
	put(t, path, "")
	if s := o.Look(later, never); s.Done != 0.4 || s.Problem != "" {
		t.Errorf("got %+v", s)
	}
	put(t, path, "saved")
	s := o.Look(later, never)
	if s.Done != 0.4 || !s.SaysSaved || time.Since(s.Saved) > time.Minute {
		t.Errorf("got %+v", s)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if s := o.Look(later, never); s.Done != 0.4 || !s.SaysSaved {
		t.Errorf("got %+v", s)
	}
}
