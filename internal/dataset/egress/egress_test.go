package egress

import (
	"context"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for address, want := range map[string][2]string{
		"s3://bucket":             {"bucket", ""},
		"s3://bucket/":            {"bucket", ""},
		"s3://bucket/some/folder": {"bucket", "some/folder"},
		"s3://bucket/folder/":     {"bucket", "folder"},
	} {
		bucket, prefix, err := Parse(address)
		if err != nil || [2]string{bucket, prefix} != want {
			t.Errorf("%s: %q and %q: %v", address, bucket, prefix, err)
		}
	}
	for _, address := range []string{"", "s3://", "s3:///folder", "/backup", "gs://bucket", "s3://bucket/../other", "s3://bucket/a//b"} {
		if _, _, err := Parse(address); err == nil || !strings.Contains(err.Error(), "give an address such as s3://bucket/folder") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestOpen(t *testing.T) {
	keys := map[string][]byte{KeyAccess: []byte("a\n"), KeySecret: []byte("s")}
	if _, err := Open("s3://bucket/folder", keys, Options{}); err != nil {
		t.Error(err)
	}
	for says, secret := range map[string]map[string][]byte{
		"the Secret has to have AWS_ACCESS_KEY_ID": {KeyAccess: []byte("a")},
		"the store's endpoint":                     {KeyAccess: []byte("a"), KeySecret: []byte("s"), KeyEndpoint: []byte("s3.example.com")},
	} {
		if _, err := Open("s3://bucket", secret, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
	}
}

// What parts of large files take of memory is bounded, and waits.
func TestBuffers(t *testing.T) {
	b := NewBuffers(40 << 20)
	taken := map[int64]int64{1: 0, 16 << 20: 0, 16<<20 + 1: 16 << 20, 100 << 30: 16 << 20, 200 << 30: 32 << 20, 5 << 40: 40 << 20}
	for size, want := range taken {
		free, err := b.take(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		if rest := 40<<20 - want; !b.left.TryAcquire(rest) {
			t.Errorf("a file of %d bytes takes more than %d", size, want)
		} else if b.left.TryAcquire(1) {
			t.Errorf("a file of %d bytes takes less than %d", size, want)
		} else {
			b.left.Release(rest)
		}
		free()
	}
	free, err := b.take(t.Context(), 5<<40)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.take(gone, 1<<30); err == nil {
		t.Error("there is more memory than there is")
	}
	if _, err := (*Buffers)(nil).take(t.Context(), 5<<40); err != nil {
		t.Error(err)
	}
}
