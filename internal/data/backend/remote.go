package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Question is what a [Remote] asks of whoever keeps the objects.
type Question struct {
	// Method is that of HTTP.
	Method string
	// Key is the object's. Empty: it is a list that is asked for, of what is below
	// Prefix.
	Key, Prefix string
	// Range is the value of the header of that name; empty: the whole object.
	Range string
	// Content is what is to be stored.
	Content []byte
}

// Asking asks once, or again where there is no answer, and returns what came of it,
// with a body that has to be closed. An answer other than what was asked for is an
// error, which wraps [io/fs.ErrNotExist] where there is no such object and
// [ErrShort] where it ends before.
type Asking func(context.Context, Question) (*http.Response, error)

// What is asked for at once, of those who have one Remote.
const (
	readsAtOnce = 12
	putsAtOnce  = 4
)

// Remote reaches objects that somebody else keeps, over HTTP, as far as they let
// it. What is said is in docs/design/open/004-door.md.
type Remote struct {
	ask         Asking
	reads, puts chan struct{}
}

var _ Backend = (*Remote)(nil)

// StoredHeader is the header of answers that says when an object was stored, as
// RFC 3339 has it with fractions of seconds.
const StoredHeader = "X-Muster-Stored"

// Line is one object in a list, or its end: each is a line of JSON.
type Line struct {
	Key    string    `json:"key,omitempty"`
	Size   int64     `json:"size,omitempty"`
	Stored time.Time `json:"stored,omitzero"`
	// End is true in the last line: what lacks it was broken off.
	End bool `json:"end,omitempty"`
}

// NewRemote reaches objects through somebody who asks for them.
func NewRemote(ask Asking) *Remote {
	return &Remote{ask: ask, reads: make(chan struct{}, readsAtOnce), puts: make(chan struct{}, putsAtOnce)}
}

// say asks once there are few enough who ask.
func (r *Remote) say(ctx context.Context, line chan struct{}, q Question, use func(*http.Response) error) error {
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	answer, err := r.ask(ctx, q)
	if err != nil {
		return err
	}
	return errors.Join(use(answer), answer.Body.Close())
}

func nothing(*http.Response) error { return nil }

// Put implements [Backend].
func (r *Remote) Put(ctx context.Context, key string, content []byte) error {
	if err := check(key); err != nil {
		return err
	}
	line := r.puts
	if len(content) < small {
		line = r.reads // a lease does not wait for packs
	}
	if err := r.say(ctx, line, Question{Method: http.MethodPut, Key: key, Content: content}, nothing); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	return nil
}

// small is the length of what is stored without waiting for what is long.
const small = 1 << 20

// brokenTries is how often a part of an object is asked for whose answer broke off
// before anything of it came.
const brokenTries = 5

// ReadAt implements [Backend]. Of an answer that breaks off, the rest is asked for: who
// answers may have to make room for others.
func (r *Remote) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if err := check(key); err != nil {
		return err
	}
	if len(into) == 0 {
		_, err := r.Stat(ctx, key)
		return err
	}
	come := 0
	for try := 1; ; try++ {
		broken, before := false, come
		q := Question{Method: http.MethodGet, Key: key, Range: fmt.Sprintf("bytes=%d-%d", offset+int64(come), offset+int64(len(into))-1)}
		err := r.say(ctx, r.reads, q, func(answer *http.Response) error {
			if answer.StatusCode != http.StatusPartialContent {
				return fmt.Errorf("a part was asked for, and the answer is %s", answer.Status)
			}
			n, err := io.ReadFull(answer.Body, into[come:])
			come += n
			broken = err != nil
			return err
		})
		if err == nil {
			return nil
		}
		if come > before {
			try = 0 // it gets further
		}
		if !broken || try == brokenTries || ctx.Err() != nil {
			return fmt.Errorf("reading %s: %d bytes at %d: %w", key, len(into), offset, err)
		}
	}
}

// Stat implements [Backend].
func (r *Remote) Stat(ctx context.Context, key string) (Info, error) {
	if err := check(key); err != nil {
		return Info{}, err
	}
	info := Info{Key: key}
	err := r.say(ctx, r.reads, Question{Method: http.MethodHead, Key: key}, func(answer *http.Response) (err error) {
		if answer.ContentLength < 0 {
			return errors.New("the answer does not say how long it is")
		}
		info.Size = answer.ContentLength
		info.Stored, err = time.Parse(time.RFC3339Nano, answer.Header.Get(StoredHeader))
		return err
	})
	if err != nil {
		return Info{}, fmt.Errorf("looking for %s: %w", key, err)
	}
	return info, nil
}

// List implements [Backend]. The list is there as a whole before any of it is shown:
// who looks at it may ask for more.
func (r *Remote) List(ctx context.Context, prefix string, see func(Info) error) error {
	if err := check(prefix); err != nil {
		return err
	}
	if !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("listing %q: a prefix ends in a slash", prefix)
	}
	var all []Info
	err := r.say(ctx, r.reads, Question{Method: http.MethodGet, Prefix: prefix}, func(answer *http.Response) error {
		lines := json.NewDecoder(answer.Body)
		for {
			var line Line
			if err := lines.Decode(&line); err != nil {
				return err
			}
			if line.End {
				return nil
			}
			all = append(all, Info{Key: line.Key, Size: line.Size, Stored: line.Stored})
		}
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", prefix, err)
	}
	for _, info := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := see(info); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements [Backend].
func (r *Remote) Delete(ctx context.Context, key string) error {
	if err := check(key); err != nil {
		return err
	}
	if err := r.say(ctx, r.reads, Question{Method: http.MethodDelete, Key: key}, nothing); err != nil {
		return fmt.Errorf("removing %s: %w", key, err)
	}
	return nil
}
