package data

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

func TestKindsOfObjects(t *testing.T) {
	name, err := pack.NewName()
	if err != nil {
		t.Fatal(err)
	}
	id := digest.Of([]byte("x"))
	for key, want := range map[string]Kind{
		name.Key():                        PackObject,
		commit.Key(id):                    CommitObject,
		leasePrefix + rand.Text():         LeaseObject,
		condemnedPrefix + rand.Text():     CondemnedObject,
		"clock":                           StrangeObject,
		"abandoned":                       StrangeObject,
		leasePrefix + "SHORT":             StrangeObject,
		leasePrefix + "../" + rand.Text(): StrangeObject,
		"packs/zz/" + name.String():       StrangeObject,
		commit.Key(id) + "0":              StrangeObject,
		"":                                StrangeObject,
	} {
		if got := KindOf(key); got != want {
			t.Errorf("%q is %d, want %d", key, got, want)
		}
	}
	for prefix, want := range map[string]bool{
		"packs/": true, "commits/": true, "packs/ab/": true, "commits/00/": true, "condemned/": true,
		"leases/": false, "leases/ab/": false, "condemned/ab/": false, "": false, "packs": false, "packs/abc": false, "packs/a/b/": false,
	} {
		if got := Listed(prefix); got != want {
			t.Errorf("%q is listed: %v, want %v", prefix, got, want)
		}
	}
}

// TestWhatStoresWriteIsTaken: what a session itself puts is what it says it is, and
// what is not is refused.
func TestWhatStoresWriteIsTaken(t *testing.T) {
	b := &backend.Memory{}
	s, err := Open(t.Context(), Options{Backend: b})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	id, blob, err := commit.Encode(&commit.Commit{Message: "x"})
	must(t, err)
	lease, err := s.Pin(t.Context(), id)
	must(t, err)
	text, err := backend.Read(t.Context(), b, lease.key)
	must(t, err)
	must(t, CheckObject(lease.key, text))
	must(t, lease.Release(t.Context()))
	must(t, CheckObject(commit.Key(id), blob))
	for name, c := range map[string]struct{ key, content string }{
		"another commit": {commit.Key(digest.Of(nil)), string(blob)},
		"half a commit":  {commit.Key(id), string(blob[:len(blob)/2])},
		"no lease":       {lease.key, "x"},
		"never renewed":  {lease.key, `{"ttl":-1}`},
		"for ever":       {lease.key, `{"ttl":9000000000000000}`},
		"neither":        {"packs/00/" + strings.Repeat("0", 32), ""},
	} {
		if err := CheckObject(c.key, []byte(c.content)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
