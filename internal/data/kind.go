package data

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/pack"
)

// Kind says what an object of a store is, for those who pass objects on to others
// and have to know what these may do with them.
type Kind int

// The kinds of objects.
const (
	// StrangeObject is what no store puts anywhere.
	StrangeObject Kind = iota
	// PackObject and CommitObject are written once and never change.
	PackObject
	CommitObject
	// LeaseObject is written again and again, and removed by whoever has it. Its name is a
	// secret: who knows it is who has it.
	LeaseObject
	// CondemnedObject is a list of what a collection is about to remove.
	CondemnedObject
)

const (
	// MaxCommit is how long a commit may be that comes from others.
	MaxCommit = 1 << 20
	// LeasePrefix is what the keys of leases begin with.
	LeasePrefix = leasePrefix
	// MaxLease is how long a lease may be that comes from others.
	MaxLease = 64 << 10
	// maxTTL is for how long a lease of others may stand without being renewed.
	maxTTL = 24 * time.Hour
	// leaseName is how long the random part of the key of a lease is.
	leaseName = 26
)

// KindOf says what the object with a key is.
func KindOf(key string) Kind {
	if _, err := pack.ParseKey(key); err == nil {
		return PackObject
	}
	if _, err := commit.ParseKey(key); err == nil {
		return CommitObject
	}
	if name, is := strings.CutPrefix(key, leasePrefix); is && random(name) {
		return LeaseObject
	}
	if name, is := strings.CutPrefix(key, condemnedPrefix); is && random(name) {
		return CondemnedObject
	}
	return StrangeObject
}

// random says whether a name may be one of [rand.Text].
func random(name string) bool {
	return len(name) >= leaseName && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') })
}

// Listed says whether a prefix is one whose keys may be shown to those who have no
// right to remove what is there: those of leases may not.
func Listed(prefix string) bool {
	for _, all := range []string{pack.Prefix, commit.Prefix, condemnedPrefix} {
		if prefix == all || all != condemnedPrefix && len(prefix) == len(all)+3 && strings.HasPrefix(prefix, all) && strings.HasSuffix(prefix, "/") {
			return true
		}
	}
	return false
}

// CheckObject refuses a commit or a lease of others that is none: what a collection
// cannot read would keep it from removing anything.
func CheckObject(key string, content []byte) error {
	switch KindOf(key) {
	case CommitObject:
		id, err := commit.ParseKey(key)
		if err == nil {
			_, err = commit.Decode(id, content)
		}
		return err
	case LeaseObject:
		var n note
		if err := json.Unmarshal(content, &n); err != nil {
			return fmt.Errorf("reading a lease: %w", err)
		}
		if n.TTL <= 0 || n.TTL > maxTTL {
			return fmt.Errorf("reading a lease: it stands for %s after it was renewed: give more than nothing and %s at most", n.TTL, maxTTL)
		}
		return nil
	}
	return fmt.Errorf("%s is neither a commit nor a lease", key)
}
