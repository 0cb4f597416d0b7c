package commit

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// FuzzDecode: a commit that is read is written again as one that says the same.
func FuzzDecode(f *testing.F) {
	for _, c := range []Commit{
		{Time: time.Unix(0, 0)},
		{
			Tree:    tree.Root{ID: digest.Of([]byte("t")), Place: pack.Place{Pack: pack.Name{1}, Offset: 2, Stored: 3, Raw: 4}, Files: 5, Bytes: 6},
			Parents: []digest.ID{digest.Of([]byte("p"))}, Author: "ada", Message: "数据\x1b[2J", Time: time.Unix(1, 2), Provenance: []byte(`{"a":[1e99,{"b":null}]}`),
		},
	} {
		id, blob, err := Encode(&c)
		if err != nil {
			f.Fatal(err)
		}
		said, where, err := pack.Split(id, blob)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(said, where)
	}
	f.Add([]byte(`{"files":-1,"bytes":9223372036854775807,"time":"9999-12-31T23:59:59.999999999+23:59","provenance":[]}`), []byte{})
	f.Fuzz(func(t *testing.T, said, where []byte) {
		id := digest.Of(said)
		sum := digest.Of(slices.Concat(id[:], where))
		c, err := Decode(id, slices.Concat(binary.AppendUvarint(nil, uint64(len(said))), said, where, sum[:16]))
		if err != nil {
			return
		}
		written, blob, err := Encode(&c)
		if err != nil {
			t.Fatalf("%q is read, and is not written: %v", said, err)
		}
		again, err := Decode(written, blob)
		if err != nil {
			t.Fatalf("%q is read, and not when it is written as %q: %v", said, blob, err)
		}
		c.ID = written
		c.Provenance, err = canonical(c.Provenance)
		if diff := cmp.Diff(c, again); diff != "" || err != nil {
			t.Fatalf("%q: %v (-read +again):\n%s", said, err, diff)
		}
	})
}

// FuzzParseKey: a key is that of one commit, written in one way.
func FuzzParseKey(f *testing.F) {
	f.Add(Key(digest.Of([]byte("x"))))
	f.Add("commits/AB/" + "AB")
	f.Fuzz(func(t *testing.T, key string) {
		if id, err := ParseKey(key); err == nil && Key(id) != key {
			t.Fatalf("%q is taken for %s", key, Key(id))
		}
	})
}
