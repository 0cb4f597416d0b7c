package data

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// MaxContent is how long a [Content] may be, in bytes: it is one chunk.
const MaxContent = chunk.Min

// Content is a file whose bytes are in memory.
type Content struct {
	Path string
	// Bytes are at most [MaxContent]. They must not change before the session is over.
	Bytes []byte
	// Name is that of the bytes by [ContentName], where it is known already. Default:
	// they are hashed.
	Name digest.ID

	// stored is how the bytes are stored, where [Store.Content] found that out.
	stored []byte
}

// Content is a file in memory that is named and compressed already: whoever adds it to
// a session does not wait for that any more. The bytes must not change.
func (s *Store) Content(path string, bytes []byte) Content {
	c := Content{Path: path, Bytes: bytes, Name: ContentName(bytes)}
	if len(bytes) > 0 && len(bytes) <= MaxContent {
		c.stored = s.codec.Encode(bytes, nil)
	}
	return c
}

// Contents is a source of files whose bytes are in memory, each path once.
func Contents(files []Content) Source { return contentSource(files) }

type contentSource []Content

func (contentSource) inOrder() bool { return false }

func (s contentSource) feed(ctx context.Context, f *feed) error {
	for _, c := range s {
		it := item{entry: tree.Entry{Path: f.to + c.Path, Kind: tree.File, Size: int64(len(c.Bytes)), Content: c.Name}, content: c.Bytes, stored: c.stored}
		if err := tree.CheckPath(it.entry.Path); err != nil {
			return err
		}
		if len(c.Bytes) > MaxContent {
			return fmt.Errorf("%q has %d bytes in memory: at most %d are possible, longer ones are read as a stream", c.Path, len(c.Bytes), MaxContent)
		}
		if err := f.find(ctx, &it); err != nil {
			return err
		}
		if err := f.add(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

// Starts says that the store takes packs of which not all is there yet.
func (s *Store) Starts() bool {
	_, ok := s.backend.(backend.Starter)
	return ok
}

// Send sends contents on their way to the store that [Store.Content] made: when they are
// added, that is done, or nearly, and was not waited for. Where the store [Store.Starts],
// more may be sent, and it is in the same pack as what is added: what is sent and not
// added stays as long as that. Elsewhere what is sent is a pack of its own.
func (s *Session) Send(ctx context.Context, files []Content) error {
	if err := s.usable(); err != nil {
		return err
	}
	for _, c := range files {
		if c.stored == nil {
			continue
		}
		_, ok, err := s.writer.find(ctx, c.Name, len(c.Bytes))
		if err == nil && !ok {
			_, err = s.writer.put(pack.Data, c.Name, len(c.Bytes), c.stored)
		}
		if err != nil {
			return s.fail(err)
		}
	}
	if !s.writer.start() {
		s.writer.send()
	}
	return nil
}

// ContentName is what a file with these bytes in memory has as its content, as in
// [Entry].Content; see [MaxContent].
func ContentName(content []byte) digest.ID {
	if len(content) == 0 {
		return digest.ID{}
	}
	return digest.Of(content)
}

// Unset removes what is at a path itself, not what is below it; nothing there is no
// error.
func (s *Session) Unset(ctx context.Context, path string) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.set(ctx, tree.Edit{Path: path}); err != nil {
		return s.fail(err)
	}
	return nil
}

// Copy puts a file of a commit of the same store at a path, without touching its
// bytes. The commit has to be one that some branch or tag leads to. An error that
// wraps [fs.ErrNotExist] leaves the session as it was.
func (s *Session) Copy(ctx context.Context, from *View, path, to string) error {
	if err := s.usable(); err != nil {
		return err
	}
	e, err := from.Stat(ctx, path)
	if err != nil {
		return err
	}
	if e.Kind != tree.File {
		return fmt.Errorf("%q is a %s: only files are copied", path, e.Kind)
	}
	if err := tree.CheckPath(to); err != nil {
		return err
	}
	if from.commit.ID != s.base.ID {
		if err := s.keep(ctx, from.commit); err != nil {
			return err
		}
	}
	e.Path = to
	if err := s.set(ctx, tree.Edit{Path: to, Entry: &e}); err != nil {
		return s.fail(err)
	}
	return nil
}

// keep makes sure that a commit stays while the session refers to what it has.
func (s *Session) keep(ctx context.Context, c commit.Commit) error {
	lease, err := s.store.Pin(ctx, c.ID)
	if err != nil {
		return err
	}
	s.pins = append(s.pins, lease)
	condemned, err := s.store.condemned(ctx)
	if err != nil {
		return err
	}
	if condemned[commit.Key(c.ID)] {
		return fmt.Errorf("commit %s is being collected: nothing led to it: %w", c.ID.Short(), fs.ErrNotExist)
	}
	return nil
}

// From shows every entry from a path on, in the order of paths.
func (v *View) From(ctx context.Context, path string, see func(*Entry) error) error {
	for e, err := range v.store.trees.From(ctx, v.commit.Tree, path) {
		if err == nil {
			err = see(e)
		}
		if err != nil {
			return stopped(err)
		}
	}
	return nil
}

// Stat is what is at a path as the session has it, changes included.
func (s *Session) Stat(ctx context.Context, path string) (Entry, error) {
	if err := s.usable(); err != nil {
		return Entry{}, err
	}
	if err := s.apply(ctx); err != nil {
		return Entry{}, s.fail(err)
	}
	return s.trees.Get(ctx, s.root, path)
}
