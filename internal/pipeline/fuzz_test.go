package pipeline

import (
	"reflect"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/tree"
)

// FuzzDecodeRecord: a record that is read is written as the same.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"datum":"数据","exit":137,"seconds":1e99,"started":"2026-01-02T03:04:05.000000006+23:59","gpus":0.25}`))
	f.Add([]byte(`{"started":"0000-01-01T00:00:00Z","tries":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeRecord(text)
		if err != nil {
			return
		}
		written, err := r.Encode()
		if err != nil {
			t.Fatalf("%q is read, and is not written: %v", text, err)
		}
		again, err := DecodeRecord(written)
		if err != nil || !r.Started.Equal(again.Started) {
			t.Fatalf("%q is written as %q, and read as %+v, %v", text, written, again, err)
		}
		r.Started, again.Started = time.Time{}, time.Time{}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v is read as %+v", r, again)
		}
	})
}

// FuzzDecodeRecipe: a recipe that is read has the name of its parts, also when it is written again.
func FuzzDecodeRecipe(f *testing.F) {
	r := &Recipe{Parts: map[string]string{"command": "x"}, Detail: map[string]string{"command": "python"}}
	r.ID = r.digest()
	text, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeRecipe(text)
		if err != nil {
			return
		}
		written, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeRecipe(written); err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%q is read again as %+v, %v", text, again, err)
		}
	})
}

// FuzzPast: the state of a datum that is read is the entry that it was read of.
func FuzzPast(f *testing.F) {
	f.Add(past{}.entry("", "x").Target)
	f.Add("AA.AA")
	f.Fuzz(func(t *testing.T, target string) {
		p, err := parsePast(&tree.Entry{Path: "x", Target: target})
		if err != nil {
			return
		}
		if again, err := parsePast(p.entry("", "x")); err != nil || again != p {
			t.Fatalf("%q is read as %v, and then as %v, %v", target, p, again, err)
		}
	})
}
