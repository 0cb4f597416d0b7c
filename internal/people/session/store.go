package session

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// Store keeps the table. A table writes it from one process at a time: on a cluster, the leader.
type Store interface {
	// Load returns the newest table that Save stored, or nothing if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save stores a table in place of the last. After an error the store has one of the two.
	Save(ctx context.Context, table []byte) error
}

const (
	version = 1
	// tableBytes bounds a table without another limit, so that it fits into a Secret of Kubernetes.
	tableBytes = 1 << 20
	// fileBytes bounds a file.
	fileBytes = 64 << 20
)

// File is a store in one file that only its owner may read.
type File struct{ Path string }

// Load implements [Store]. It refuses a link, and a file that others may read. Windows has no such modes.
func (f File) Load(context.Context) (text []byte, err error) {
	folder, err := os.OpenRoot(filepath.Dir(f.Path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	name := filepath.Base(f.Path)
	info, err := folder.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); runtime.GOOS != "windows" && mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has the mode %#o: only its owner may read it; remove the file, since others may have read or changed it", f.Path, mode.Perm())
	}
	return osfile.ReadRegular(folder, name, fileBytes)
}

// Save implements [Store].
func (f File) Save(_ context.Context, table []byte) error {
	return osfile.Replace(f.Path, table, 0o600)
}

type stored struct {
	Version int       `json:"version"`
	Records []*record `json:"records"`
}

// MarshalText writes a digest in hexadecimal.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads a digest in hexadecimal.
func (d *digest) UnmarshalText(text []byte) error {
	if len(text) != 2*len(d) {
		return fmt.Errorf("a hash has %d digits, not %d", 2*len(d), len(text))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("reading a hash: %w", err)
	}
	return nil
}

func decode(text []byte, most int) ([]*record, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if len(text) > most {
		return nil, fmt.Errorf("the table has %d bytes, and at most %d are allowed", len(text), most)
	}
	var s stored
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("more follows the table")
	}
	if s.Version != version {
		return nil, fmt.Errorf("the table has version %d, and this Muster reads version %d", s.Version, version)
	}
	seen := map[string]bool{}
	for _, r := range s.Records {
		if err := r.check(); err != nil {
			return nil, err
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("two entries have the ID %s", r.ID)
		}
		seen[r.ID] = true
	}
	return s.Records, nil
}

func (r *record) check() error {
	switch {
	case r == nil:
		return errors.New("an entry is null")
	case !validID(r.ID):
		return fmt.Errorf("%q is no ID", r.ID)
	case r.Sum == digest{}:
		return fmt.Errorf("entry %s has no hash", r.ID)
	case r.Kind == KindSession && (r.Key == digest{} || r.Origin == "" || len(r.Scopes) > 0):
		return fmt.Errorf("session %s lacks its key or origin, or has scopes", r.ID)
	case r.Kind == KindToken && (r.Key != digest{} || r.Origin != "" || len(r.Scopes) == 0 || !tokenName.MatchString(r.Name)):
		return fmt.Errorf("token %s has a key or origin, or lacks its scopes or name", r.ID)
	case r.Kind == KindToken && len(r.Sealed) > 0, len(r.Sealed) > sealedBytes:
		return fmt.Errorf("entry %s has a credential of %d bytes: a token has none, and a session at most %d", r.ID, len(r.Sealed), sealedBytes)
	case r.Kind != KindSession && r.Kind != KindToken:
		return fmt.Errorf("entry %s has the kind %q", r.ID, r.Kind)
	case !r.Expires.After(r.Created), r.Seen.Before(r.Created):
		return fmt.Errorf("entry %s has times in the wrong order", r.ID)
	}
	return r.Caller.check()
}

// save stores the table as it is now.
func (t *Table) save(ctx context.Context) error {
	t.saving.Lock()
	defer t.saving.Unlock()
	t.mu.Lock()
	s := stored{Version: version, Records: make([]*record, 0, len(t.records))}
	for _, r := range t.records {
		s.Records = append(s.Records, &record{Entry: r.Entry, Sum: r.Sum, Key: r.Key, Sealed: r.Sealed})
	}
	t.dirty = false
	t.mu.Unlock()
	slices.SortFunc(s.Records, func(a, b *record) int { return strings.Compare(a.ID, b.ID) })
	text, err := json.Marshal(s)
	if err == nil && len(text) > t.limits.Bytes {
		err = fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrFull, len(text), t.limits.Bytes)
	}
	if err == nil {
		err = t.store.Save(ctx, text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.dirty = true
		return fmt.Errorf("storing sessions: %w", err)
	}
	for _, r := range s.Records {
		if now := t.records[r.ID]; now != nil {
			now.saved = r.Seen
		}
	}
	return nil
}

// sweep removes what has expired. It keeps entries from the future: the clock may be corrected. The
// caller holds mu.
func (t *Table) sweep(now time.Time) {
	for _, r := range t.records {
		expired := errors.Is(t.live(&r.Entry, now), ErrExpired)
		if expired && (r.Kind == KindSession || now.Sub(r.Expires) >= listed) {
			t.remove(r)
		}
	}
}

// Flush removes what has expired, and stores the table if it has changed.
func (t *Table) Flush(ctx context.Context) error {
	now := t.now()
	t.mu.Lock()
	t.sweep(now)
	for id, l := range t.links {
		if t.stale(l, now) {
			delete(t.links, id)
		}
	}
	dirty := t.dirty
	t.mu.Unlock()
	if !dirty {
		return nil
	}
	return t.save(ctx)
}

// Run flushes the table once a minute and when ctx ends. It passes errors to report.
func (t *Table) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(touch)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-tick.C:
			err = t.Flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			err = t.Flush(last)
		}
		if err != nil {
			report(err)
		}
		if ctx.Err() != nil {
			return
		}
	}
}
