package datavolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/fetcher"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
)

// longestBackoff is the longest pause between two tries.
const longestBackoff = 30 * time.Second

// errUnwanted is the error of an errand that no volume wants any more.
var errUnwanted = errors.New("nobody wants it any more")

// bring has a part here, however often it has to be tried, until it is known that it
// never will be or nobody wants it any more.
func (s *Server) bring(life context.Context, v volume) error {
	ctx, end := context.WithCancel(life)
	defer end()
	s.mu.Lock()
	s.ends[v.part()] = end
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ends, v.part())
	}()
	// What nobody waits for yet makes way; of the same part the rest is left.
	defer s.agenda.yield()()
	began := s.options.Now()
	s.options.Log.Info("fetching", "namespace", v.Namespace, "commit", v.Commit, "path", v.Path)
	for pause := s.options.Backoff; ; pause = min(2*pause, max(longestBackoff, s.options.Backoff)) {
		freed := s.whenFreed()
		err := s.once(ctx, v)
		if ctx.Err() != nil {
			return ended(life)
		}
		if err == nil {
			s.options.Log.Info("fetched", "namespace", v.Namespace, "commit", v.Commit, "path", v.Path, "took", s.options.Now().Sub(began))
			return nil
		}
		reason, text := judge(err)
		s.say(v, reason, v.called()+": "+text)
		if reason != v1alpha1.DataRetrying {
			return errors.New(text)
		}
		s.options.Log.Warn("fetching; it is tried again", "namespace", v.Namespace, "commit", v.Commit, "path", v.Path, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ended(life)
		case <-freed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// whenFreed is closed once the next volume is gone.
func (s *Server) whenFreed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

// ended is why an errand was.
func ended(life context.Context) error {
	if err := life.Err(); err != nil {
		return err
	}
	return errUnwanted
}

// judge says whether trying again helps, and what is wrong in words.
func judge(err error) (v1alpha1.DataReason, string) {
	full, room := errors.AsType[*cache.RoomError](err)
	switch {
	case room && full.Never():
		return v1alpha1.DataUnfit, full.Error() + " (agent.dataCache of the installation): have the job read it as it asks for it (lazy: true)"
	case data.Unfit(err):
		return v1alpha1.DataLost, err.Error()
	case errors.Is(err, fs.ErrNotExist):
		return v1alpha1.DataLost, "it is not in the store of this namespace any more: submit the job again, with a version that is there (muster data log)"
	}
	return v1alpha1.DataRetrying, err.Error() + "; trying again"
}

// once tries once: 1. the key, by which the records keep it, 2. the files.
func (s *Server) once(ctx context.Context, v volume) error {
	select {
	case s.turns <- struct{}{}:
	default:
		s.say(v, v1alpha1.DataFetching, v.called()+": waiting until other data was fetched to the node")
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-s.turns }()
	part := fetcher.Part{Namespace: v.Namespace, Commit: v.Commit, Path: v.Path}
	key, err := s.options.Cache.Key(ctx, part)
	if err != nil {
		return err
	}
	if err := s.ledger.learn(v.part(), key); err != nil {
		return err
	}
	return s.options.Cache.Ensure(ctx, part, nil, func(p data.Progress) {
		if p.TotalBytes > 0 {
			s.say(v, v1alpha1.DataFetching, fmt.Sprintf("fetching %s: %s of %s", v.called(), cache.Size(p.Bytes), cache.Size(p.TotalBytes)))
		}
	})
}

// say tells all volumes that a part is for how it stands.
func (s *Server) say(v volume, reason v1alpha1.DataReason, text string) {
	for handle, other := range s.ledger.with(v.part()) {
		s.board.wait(other.Pod, handle, reason, text)
	}
}
