// Package commit owns commits: a tree, what was before it, who made it, when and
// why.
//
// Vocabulary: a commit's name is the hash of all that it says, the name of its tree
// included, but not where the tree lies. It must not know trees from inside, nor
// branches.
package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Prefix is what the keys of all commits begin with.
const Prefix = "commits/"

// Commit is one commit.
type Commit struct {
	ID   digest.ID
	Tree tree.Root
	// Parents are the commits before it: none for the first, two for a merge, the
	// one that was merged into first.
	Parents []digest.ID
	Author  string
	Message string
	// Time is when it was made, by the clock of who made it.
	Time time.Time
	// Provenance is a JSON object that says what the commit was made of, for those
	// who make commits out of others. It is part of what the commit says; nothing
	// that it names is kept by it. At most [MaxProvenance] bytes; default: none.
	Provenance json.RawMessage
}

// MaxProvenance is how long a commit's provenance may be: a commit is read as a
// whole.
const MaxProvenance = 64 << 10

// what is what a commit says, as it is written.
type what struct {
	Tree    digest.ID   `json:"tree"`
	Files   int64       `json:"files"`
	Bytes   int64       `json:"bytes"`
	Parents []digest.ID `json:"parents,omitempty"`
	Author  string      `json:"author,omitempty"`
	Message string      `json:"message,omitempty"`
	Time    time.Time   `json:"time"`
	// Provenance is compact, with its keys in order.
	Provenance json.RawMessage `json:"provenance,omitempty"`
}

// Encode is the commit's object, and its name.
func Encode(c *Commit) (digest.ID, []byte, error) {
	provenance, err := canonical(c.Provenance)
	if err != nil {
		return digest.ID{}, nil, fmt.Errorf("writing a commit: %w", err)
	}
	said, err := json.Marshal(what{
		Tree: c.Tree.ID, Files: c.Tree.Files, Bytes: c.Tree.Bytes, Parents: c.Parents,
		Author: c.Author, Message: c.Message, Time: c.Time.UTC(), Provenance: provenance,
	})
	if err != nil {
		return digest.ID{}, nil, fmt.Errorf("writing a commit: %w", err)
	}
	var where pack.Places
	if !c.Tree.ID.IsZero() {
		where.Add(c.Tree.Place)
	}
	id, blob := pack.Join(said, &where)
	return id, blob, nil
}

// canonical is JSON in the one form that it is written in.
func canonical(provenance json.RawMessage) (json.RawMessage, error) {
	if len(provenance) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(provenance))
	decoder.UseNumber()
	fields := map[string]any{}
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("its provenance is no JSON object: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("its provenance is more than one JSON object")
	}
	text, err := json.Marshal(fields)
	if err == nil && len(text) > MaxProvenance {
		err = fmt.Errorf("its provenance has %d bytes: at most %d are possible", len(text), MaxProvenance)
	}
	return text, err
}

// Decode reads what Encode wrote.
func Decode(id digest.ID, blob []byte) (Commit, error) {
	said, where, err := pack.Split(id, blob)
	if err != nil {
		return Commit{}, err
	}
	var w what
	if err := json.Unmarshal(said, &w); err != nil {
		return Commit{}, fmt.Errorf("commit %s: %w: %w", id.Short(), pack.ErrDamaged, err)
	}
	c := Commit{
		ID: id, Tree: tree.Root{ID: w.Tree, Files: w.Files, Bytes: w.Bytes}, Parents: w.Parents,
		Author: w.Author, Message: w.Message, Time: w.Time, Provenance: w.Provenance,
	}
	places := pack.ReadPlaces(where)
	if !w.Tree.IsZero() {
		c.Tree.Place = places.Next()
	}
	if err := places.End(); err != nil {
		return Commit{}, fmt.Errorf("commit %s: %w", id.Short(), err)
	}
	return c, nil
}

// Key is the key of a commit's object.
func Key(id digest.ID) string {
	s := id.String()
	return Prefix + s[:2] + "/" + s
}

// ParseKey reads what Key wrote.
func ParseKey(key string) (digest.ID, error) {
	id, err := digest.Parse(key[strings.LastIndexByte(key, '/')+1:])
	if err == nil && Key(id) != key {
		err = fmt.Errorf("%q is not the key of a commit", key)
	}
	return id, err
}

// Write stores a commit, durably when it returns nil, once first has made durable what
// it names; an error of first is the answer.
func Write(ctx context.Context, b backend.Backend, c *Commit, first func() error) error {
	id, blob, err := Encode(c)
	if err != nil {
		return err
	}
	c.ID = id
	return backend.PutAfter(ctx, b, Key(id), blob, first)
}

// Read reads a commit. The error wraps [io/fs.ErrNotExist] where there is none.
func Read(ctx context.Context, b backend.Backend, id digest.ID) (Commit, error) {
	blob, err := backend.Read(ctx, b, Key(id))
	if err != nil {
		return Commit{}, fmt.Errorf("reading commit %s: %w", id.Short(), err)
	}
	c, err := Decode(id, blob)
	if err != nil {
		return Commit{}, fmt.Errorf("reading %s: %w", Key(id), err)
	}
	return c, nil
}
