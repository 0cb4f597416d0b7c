package bale

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/pack"
)

// TestReadsWhatEarlierVersionsStored reads a bale that version 0.1.0 stored. The data folder in
// test/fixtures has no bale, because packs are joined only from 8 MiB on.
func TestReadsWhatEarlierVersionsStored(t *testing.T) {
	stored, err := os.ReadFile("testdata/bale-0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	inner := &backend.Memory{}
	if err := inner.Put(t.Context(), Prefix+"00112233445566778899aabbccddeeff", stored); err != nil {
		t.Fatal(err)
	}
	b := Over(inner)
	var texts []string
	err = b.List(t.Context(), pack.Prefix, func(i backend.Info) error {
		name, err := pack.ParseKey(i.Key)
		if err != nil {
			return err
		}
		records, err := pack.ReadIndex(t.Context(), b, name, i.Size)
		if err != nil {
			return err
		}
		for _, r := range records {
			text := make([]byte, r.Place.Stored)
			if err := b.ReadAt(t.Context(), i.Key, int64(r.Place.Offset), text); err != nil {
				return err
			}
			if err := check(r, text); err != nil {
				t.Errorf("%s: %q is not the blob that it is said to be: %v", i.Key, text, err)
			}
			texts = append(texts, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(texts)
	if diff := cmp.Diff([]string{"a table", "an image", "its label"}, texts); diff != "" {
		t.Errorf("the blobs in the bale (-want +got):\n%s", diff)
	}
}
