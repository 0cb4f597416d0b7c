package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// newJournal opens a journal in a folder of the test's own.
func newJournal(t *testing.T, limits contract.LogLimits) (j *journal, folder string) {
	t.Helper()
	dir := t.TempDir()
	folder = filepath.Join(dir, contract.LogFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if j, err = openJournal(root, limits); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.file.Close() })
	return j, folder
}

// line is an entry of that text.
func line(text string) []byte {
	return contract.AppendEntry(nil, contract.Entry{Time: time.Unix(1, 0), Stream: contract.Stdout, Text: []byte(text)})
}

// logged reads all files, by name: the texts of their entries.
func logged(t *testing.T, folder string) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = []string{}
		for l := range bytes.Lines(data) {
			entry, ok := contract.ParseEntry(bytes.TrimSuffix(l, []byte("\n")))
			if !ok {
				t.Errorf("%s has the line %q", e.Name(), l)
			}
			texts[e.Name()] = append(texts[e.Name()], string(entry.Text))
		}
	}
	return texts
}

func TestRotation(t *testing.T) {
	size := int64(len(line("1")))
	j, folder := newJournal(t, contract.LogLimits{MaxBytes: 2 * size, MaxFiles: 2})
	// One by one, then several at once, which end in the middle of a file.
	j.write(line("1"))
	j.write(line("2"))
	j.write(line("3"))
	j.write(bytes.Join([][]byte{line("4"), line("5"), line("6"), line("7")}, nil))
	want := map[string][]string{contract.LogName(3): {"5", "6"}, contract.LogName(4): {"7"}}
	if diff := cmp.Diff(want, logged(t, folder)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	// An entry that is longer than a file has one to itself, whole.
	long := strings.Repeat("x", int(3*size))
	j.write(line(long))
	j.write(line("8"))
	want = map[string][]string{contract.LogName(5): {long}, contract.LogName(6): {"8"}}
	if diff := cmp.Diff(want, logged(t, folder)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestLostOutputIsTold: what could not be written is counted, and the journal
// says so as soon as it can.
func TestLostOutputIsTold(t *testing.T) {
	t.Run("no space", func(t *testing.T) {
		j, folder := newJournal(t, contract.LogLimits{})
		j.write(line("before"))
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		good := j.file
		j.file = full
		j.write(line("lost"))
		j.write(line("lost, too"))
		if err := full.Close(); err != nil {
			t.Fatal(err)
		}
		j.file = good
		j.write(line("after"))
		j.write(line("later"))
		lost := len(line("lost")) + len(line("lost, too"))
		want := map[string][]string{contract.LogName(1): {"before",
			fmt.Sprintf("muster: %d bytes of output were not logged: write /dev/full: no space left on device", lost), "after", "later"}}
		if diff := cmp.Diff(want, logged(t, folder)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
	t.Run("no next file", func(t *testing.T) {
		j, folder := newJournal(t, contract.LogLimits{MaxBytes: 1})
		j.write(line("before"))
		// Something else is where the next file would be.
		obstacle := filepath.Join(folder, contract.LogName(2))
		if err := os.Mkdir(obstacle, 0o700); err != nil {
			t.Fatal(err)
		}
		j.write(line("lost"))
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		j.write(line("after"))
		got := logged(t, folder)[contract.LogName(2)]
		if len(got) != 2 || !strings.HasPrefix(got[0], fmt.Sprintf("muster: %d bytes of output were not logged: ", len(line("lost")))) || got[1] != "after" {
			t.Errorf("the next file has %q", got)
		}
	})
}

func TestPump(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j, folder := newJournal(t, contract.LogLimits{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.pump(from, contract.Stderr, time.Hour)
	}()
	// However it is cut, a line is one entry; its unfinished end is one, too.
	for _, part := range []string{"on", "e\ntwo\nth", "ree"} {
		if _, err := to.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	if diff := cmp.Diff(map[string][]string{contract.LogName(1): {"one", "two", "three"}}, logged(t, folder)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestPumpShowsUnfinishedLines: a progress bar is logged as it goes.
func TestPumpShowsUnfinishedLines(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j, folder := newJournal(t, contract.LogLimits{})
	seen, watcher := watchers(t)
	j.watch(watcher)
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.pump(from, contract.Stdout, time.Millisecond)
	}()
	if _, err := to.WriteString("10%"); err != nil {
		t.Fatal(err)
	}
	// The journal tells of each entry: the first byte is that it watches.
	buf := make([]byte, 1)
	for len(logged(t, folder)[contract.LogName(1)]) == 0 {
		if _, err := seen.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	if got := logged(t, folder)[contract.LogName(1)]; got[0] != "10%" {
		t.Errorf("logged %q", got)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
}
