package commit

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

func TestCommitsSurvive(t *testing.T) {
	b := &backend.Memory{}
	zone := time.FixedZone("somewhere", 3600)
	for name, c := range map[string]Commit{
		"empty": {Time: time.Unix(0, 0)},
		"full": {
			Tree:    tree.Root{ID: digest.Of([]byte("t")), Place: pack.Place{Pack: pack.Name{1}, Offset: 2, Stored: 3, Raw: 4}, Files: 5, Bytes: 6},
			Parents: []digest.ID{digest.Of([]byte("p")), digest.Of([]byte("q"))},
			Author:  "ada", Message: "<why>\nand \"how\"", Time: time.Date(2026, 1, 2, 3, 4, 5, 6, zone),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Write(t.Context(), b, &c, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			got, err := Read(t.Context(), b, c.ID)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c, got); d != "" {
				t.Error(d)
			}
			moved := c
			moved.Tree.Place.Offset += 100
			if id, _, err := Encode(&moved); err != nil || id != c.ID {
				t.Errorf("elsewhere it is called %s instead of %s (%v)", id, c.ID, err)
			}
			if id, err := ParseKey(Key(c.ID)); err != nil || id != c.ID {
				t.Errorf("%s %v", id, err)
			}
		})
	}
}

func TestDamagedCommits(t *testing.T) {
	c := Commit{Message: "m", Time: time.Unix(1, 0), Tree: tree.Root{ID: digest.Of([]byte("t")), Place: pack.Place{Offset: 1, Stored: 1, Raw: 1}}}
	id, blob, err := Encode(&c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range blob {
		blob[i] ^= 4
		if _, err := Decode(id, blob); !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if _, err := Decode(id, blob[:i]); !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("cut off at %d: %v", i, err)
		}
		blob[i] ^= 4
	}
	if _, err := Read(t.Context(), &backend.Memory{}, id); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestProvenance: what a commit was made of is part of what it says, in one form;
// without it a commit is called what it always was.
func TestProvenance(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	names := map[digest.ID]string{}
	for _, c := range []struct{ name, given, written string }{
		{"none", "", ""},
		{"some", `{"a":1,"b":[2.50,"x"]}`, `{"a":1,"b":[2.50,"x"]}`},
		{"the same in another order", `{ "b": [2.50, "x"], "a": 1 }`, `{"a":1,"b":[2.50,"x"]}`},
		{"a large number", `{"a":123456789012345678901}`, `{"a":123456789012345678901}`},
	} {
		id, blob, err := Encode(&Commit{Author: "me", Time: at, Provenance: json.RawMessage(c.given)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(id, blob)
		if err != nil || string(got.Provenance) != c.written {
			t.Errorf("%s: %s %v", c.name, got.Provenance, err)
		}
		if as, ok := names[id]; ok && as != c.written {
			t.Errorf("%s is called as %q", c.name, as)
		}
		names[id] = c.written
	}
	if len(names) != 3 {
		t.Errorf("%d names", len(names))
	}
	if id, _, err := Encode(&Commit{Author: "me", Time: at}); err != nil || id != digest.Of([]byte(`{"tree":"`+strings.Repeat("0", 64)+`","files":0,"bytes":0,"author":"me","time":"2026-01-02T03:04:05Z"}`)) {
		t.Errorf("without provenance it is %s, %v", id, err)
	}
	for name, given := range map[string]string{
		"no object": `[1]`, "no JSON": `{`, "two": `{} {}`, "too long": `{"a":"` + strings.Repeat("x", MaxProvenance) + `"}`,
	} {
		if _, _, err := Encode(&Commit{Provenance: json.RawMessage(given)}); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
}
