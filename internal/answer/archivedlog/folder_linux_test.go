package archivedlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/muster-dev/muster/internal/node/archive"
)

// TestNames: no name of a request leads out of the archive, or to another namespace.
func TestNames(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "archive", "eve", "uid-2", "covert-worker-0", "main", "0"), 0o700); err != nil {
		t.Fatal(err)
	}
	logs := In(home)
	if pods, err := logs.Pods("eve", "uid-2"); err != nil || len(pods) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	for _, c := range [][2]string{{"ada", "../eve/uid-2"}, {"ada", ".."}, {"../eve", "uid-2"}, {"", "uid-2"}, {"eve", ""}, {"eve", "uid\x00"}} {
		if _, err := logs.Pods(c[0], c[1]); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", c, err)
		}
		if _, err := logs.Open(c[0], c[1], Kept{Pod: "covert-worker-0", Tail: -1}); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", c, err)
		}
	}
	for _, pod := range []string{"../covert-worker-0", "*", "covert-worker-?", ""} {
		if _, err := logs.Open("eve", "uid-2", Kept{Pod: pod, Tail: -1}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("pod %q: %v", pod, err)
		}
	}
	if pods, err := logs.Pods("ada", "*"); err != nil || len(pods) != 0 {
		t.Errorf("a pattern finds %v, %v", pods, err)
	}
}

func TestChoose(t *testing.T) {
	one, two := archive.Entry{Pod: "a", Sequence: 1, Container: "main"}, archive.Entry{Pod: "a", Sequence: 2, Container: "main"}
	other := archive.Entry{Pod: "b", Sequence: 1, Container: "main"}
	for name, c := range map[string]struct {
		kept Kept
		want []archive.Entry
	}{
		"all":               {Kept{Pod: "a", Tail: -1}, []archive.Entry{one, two}},
		"latest":            {Kept{Pod: "a", Which: Latest, Tail: -1}, []archive.Entry{two}},
		"earlier":           {Kept{Pod: "a", Which: Earlier, Tail: -1}, []archive.Entry{one}},
		"the last lines":    {Kept{Pod: "a", Tail: 5}, []archive.Entry{two}},
		"another container": {Kept{Pod: "a", Container: "side", Tail: -1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.kept.choose([]archive.Entry{one, two, other}); !slices.Equal(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	for word, want := range map[string]Which{"": All, "all": All, "latest": Latest, "earlier": Earlier} {
		if got, ok := ParseWhich(word); !ok || got != want {
			t.Errorf("%q: %v %v", word, got, ok)
		}
	}
	if _, ok := ParseWhich("odd"); ok {
		t.Error("an odd word is a choice")
	}
}
