package whole

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/cli/exit"
)

func writes(text string, fails error) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return errors.Join(err, fails)
	}
}

// TestFile: a file is there whole, in place of what was there, or not at all.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tar")
	for _, text := range []string{"first", "2nd"} {
		if err := File(path, writes(text, nil)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	broken := errors.New("broken")
	if err := File(path, writes("half", broken)); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "2nd" {
		t.Errorf("what was there before is %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v; want nothing left beside the file", entries, err)
	}
}

// TestFilePipe: what is no file is written to, and not replaced by one.
func TestFilePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Open for both, so that no side waits for the other.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	if err := File(path, writes("text", nil)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(pipe, got); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFileRefused: where there can be no file of the name, the words are about that name,
// and nothing was written in vain.
func TestFileRefused(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"a folder":          {dir, dir + " is a folder: name a file"},
		"no such folder":    {filepath.Join(dir, "none", "a.tar"), "there is no folder " + filepath.Join(dir, "none") + " for a.tar: make it first"},
		"a file for folder": {filepath.Join(plain, "a.tar"), plain + ", in which a.tar would be, is no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			err := File(c.path, func(io.Writer) error { t.Error("it was written"); return nil })
			if code, _ := exit.Of(err); err == nil || code != exit.Misuse || !strings.Contains(err.Error(), c.want) {
				t.Errorf("code %d, %v; want %d and %q", code, err, exit.Misuse, c.want)
			}
		})
	}
}
