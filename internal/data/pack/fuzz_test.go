package pack

import (
	"bytes"
	"testing"
)

// FuzzParseIndex: blobs of an index follow one another from the beginning of a pack to its end.
func FuzzParseIndex(f *testing.F) {
	one := make([]byte, recordSize)
	one[recordSize-8] = 5
	f.Add(one, int64(len(magic)+5+recordSize+trailerSize))
	f.Add(bytes.Repeat([]byte{255}, 3*recordSize), int64(1)<<40)
	f.Fuzz(func(t *testing.T, index []byte, size int64) {
		index = index[:len(index)/recordSize*recordSize]
		if size < int64(len(magic)+len(index)+trailerSize) {
			return // refused before
		}
		records, err := parseIndex(Name{}, index, size)
		if err != nil {
			return
		}
		at := int64(len(magic))
		for _, r := range records {
			if int64(r.Place.Offset) != at {
				t.Fatalf("a blob at %d, and the one before ends at %d", r.Place.Offset, at)
			}
			at += int64(r.Place.Stored)
		}
		if at+int64(len(index)+trailerSize) != size || len(records) != len(index)/recordSize {
			t.Fatalf("%d records of %d end at %d of %d", len(records), len(index)/recordSize, at, size)
		}
	})
}

// FuzzParseKey: a key is that of one pack, written in one way.
func FuzzParseKey(f *testing.F) {
	f.Add(Name{1}.Key())
	f.Add("packs/AB/ABAB")
	f.Fuzz(func(t *testing.T, key string) {
		if n, err := ParseKey(key); err == nil && n.Key() != key {
			t.Fatalf("%q is taken for %s", key, n.Key())
		}
	})
}
