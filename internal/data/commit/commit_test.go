package commit

import (
	"errors"
	"io/fs"
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
			if err := Write(t.Context(), b, &c); err != nil {
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
