package foreman

import (
	"errors"
	"slices"
	"sync"

	"github.com/muster-dev/muster/internal/foreman/parcel"
)

// room is how much of what workers bring may lie in the foreman's folder: what is
// arriving, and what has and is not recorded yet. One owner has half of it at most, so
// that no namespace keeps the others from bringing anything.
//
// Who has nothing of it yet waits its turn where there is none left. Of those that have
// some and want more than they said, the one that began first waits, and the others give
// back what they took and come again: so there always is one that gets further.
type room struct {
	most int64 // bytes; 0: as much as there is

	mu    sync.Mutex
	taken int64
	by    map[string]int64 // what each owner has
	line  []*hold          // what is arriving, in the order in which it began
	news  chan struct{}    // closed, and another, whenever something is given back
}

// hold is what one parcel has of a room.
type hold struct {
	room  *room
	owner string
	// bytes are what it has, and said how many of them it has not used yet.
	bytes, said int64
	// short says that it waits: for its owner's own, or for anybody's.
	short scope
}

// scope is whose room there is too little of.
type scope int

const (
	nobodys scope = iota
	owners
	everybodys
)

// errFull says that there is no room just now.
var errFull = errors.New("there is no room just now for what was made of this datum, because others are being taken: come again")

func newRoom(most int64) *room {
	return &room{most: most, by: map[string]int64{}, news: make(chan struct{})}
}

// enter begins to take in a parcel of an owner.
func (r *room) enter(owner string) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &hold{room: r, owner: owner}
	r.line = append(r.line, h)
	return h
}

// verdict is what becomes of who wants more.
type verdict int

const (
	fits   verdict = iota
	waits          // until something is given back
	yields         // and comes again
	never          // not even alone
)

// judge decides; the caller holds the lock.
func (r *room) judge(h *hold, more int64) verdict {
	// What somebody says may be as much as there are numbers for.
	all, mine := r.most > 0 && more > r.most-r.taken, r.most > 0 && more > r.most/2-r.by[h.owner]
	h.short = nobodys
	switch {
	case r.most > 0 && more > r.most/2-h.bytes:
		return never
	case !all && !mine && h.bytes == 0 && r.behind(h):
		return waits
	case !all && !mine:
		return fits
	}
	first := slices.IndexFunc(r.line, func(o *hold) bool { return all || o.owner == h.owner })
	if h.short = owners; all {
		h.short = everybodys
	}
	if h.bytes == 0 || first >= 0 && r.line[first] == h {
		return waits
	}
	return yields
}

// behind says whether somebody waits who comes before; the caller holds the lock.
func (r *room) behind(h *hold) bool {
	for _, o := range r.line {
		switch {
		case o == h:
			return false
		case o.short == everybodys, o.short == owners && o.owner == h.owner:
			return true
		}
	}
	return false
}

// expect takes as much as somebody says that will come, before any of it does; less
// than 1 is as good as nothing said.
func (h *hold) expect(bytes int64, done <-chan struct{}) error {
	if bytes <= 0 {
		return nil
	}
	if err := h.take(bytes, done); err != nil {
		return err
	}
	h.said = bytes
	return nil
}

// use takes so many bytes, first of those that were expected.
func (h *hold) use(bytes int64, done <-chan struct{}) error {
	known := min(h.said, max(bytes, 0))
	h.said -= known
	if known >= bytes {
		return nil
	}
	return h.take(bytes-known, done)
}

// take takes so many bytes more. It waits for them, or fails with errFull or a
// refusal, or as soon as done is closed.
func (h *hold) take(more int64, done <-chan struct{}) error {
	r := h.room
	for {
		r.mu.Lock()
		v, news := r.judge(h, more), r.news
		if v == fits {
			h.bytes, r.taken, r.by[h.owner] = h.bytes+more, r.taken+more, r.by[h.owner]+more
		}
		r.mu.Unlock()
		switch v {
		case fits:
			return nil
		case never:
			return parcel.Refuse("it takes more than %d bytes, which is how much of one datum is taken here: have the program write less, or make datums smaller", r.most/2)
		case yields:
			return errFull
		}
		select {
		case <-news:
		case <-done:
			return errFull
		}
	}
}

// arrived says that nothing more is taken.
func (h *hold) arrived() {
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.leave()
}

// leave takes it out of the line; the caller holds the lock.
func (h *hold) leave() {
	r := h.room
	r.line = slices.DeleteFunc(r.line, func(o *hold) bool { return o == h })
	close(r.news) // another is the first
	r.news = make(chan struct{})
}

// free gives everything back; nil has nothing.
func (h *hold) free() {
	if h == nil {
		return
	}
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= h.bytes
	if r.by[h.owner] -= h.bytes; r.by[h.owner] == 0 {
		delete(r.by, h.owner)
	}
	h.bytes, h.short = 0, nobodys
	h.leave()
}
