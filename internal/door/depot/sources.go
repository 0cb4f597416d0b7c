package depot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/environment/notice"
	"github.com/muster-dev/muster/internal/environment/source"
)

// Sources is the depot as those see it who prepare jobs. An owner is
// "<namespace>/..."; what it may have is what its namespace has. Nothing here
// waits for the shelf: it is asked in the background, and the board tells.
type Sources struct {
	depot *Depot
	board *notice.Board
	todo  *notice.Board // flights to begin, by their ids

	mu      sync.Mutex
	found   map[string]found   // by owner
	flights map[string]*flight // by namespace and digest, while under way
}

// found is what one owner was told of a snapshot.
type found struct {
	digest string
	parcel *source.Parcel
	err    error
	at     time.Time
}

// flight is one look at the shelf, for everybody who wants that snapshot
// meanwhile.
type flight struct {
	namespace, digest string
	owners            map[string]bool
}

const (
	// lookTimeout bounds one look at the shelf.
	lookTimeout = 10 * time.Second
	// lookAgain is the pause after the shelf did not answer.
	lookAgain = 5 * time.Second
	// looks is how many snapshots of a namespace are looked for at once.
	looks = 8
)

// Sources returns the depot as those see it who prepare jobs; [Sources.Start]
// looks for what they ask for, and tells them when to ask again.
func (d *Depot) Sources() *Sources {
	return &Sources{depot: d, board: notice.New(), todo: notice.New(), found: map[string]found{}, flights: map[string]*flight{}}
}

// Ensure refuses code that is to be fetched from the web: the manager would
// fetch it from within the cluster's network, for whoever asks.
func (s *Sources) Ensure(string, string) source.State {
	return source.State{Phase: source.Failed, Message: "code.url: on a cluster code is not fetched from the web; download the script and submit it with muster run --script FILE"}
}

// Has reports, without blocking, whether a snapshot is stored. An error that
// wraps [source.ErrAsked] or [source.ErrAway] says that this is not known yet.
func (s *Sources) Has(owner, digest string) (bool, error) {
	_, err := s.parcel(owner, digest)
	if errors.Is(err, ErrNotStored) {
		return false, nil
	}
	return err == nil, err
}

// Contains reports, without blocking, whether a stored snapshot holds a file. An
// error that wraps [source.ErrAsked] or [source.ErrAway] says that this is not
// known yet.
func (s *Sources) Contains(owner, digest, path string) (bool, error) {
	p, err := s.parcel(owner, digest)
	if err != nil {
		return false, err
	}
	return p.Contains(path), nil
}

// Part returns, without blocking, a file or folder of a stored snapshot. An error that
// wraps [source.ErrAsked] or [source.ErrAway] says that this is not known yet.
func (s *Sources) Part(owner, digest, path string) (source.Part, error) {
	p, err := s.parcel(owner, digest)
	if err != nil {
		return source.Part{}, err
	}
	return p.Part(path)
}

// Files are the files of a stored snapshot, and what names their contents. An error
// that wraps [source.ErrAsked] or [source.ErrAway] says that this is not known yet.
func (s *Sources) Files(owner, digest string) (map[string]string, error) {
	p, err := s.parcel(owner, digest)
	if err != nil {
		return nil, err
	}
	return p.Named(), nil
}

// parcel is what is known of a snapshot. What is not, is looked for: an answer
// counts for a while, and one that nothing is known for is asked for anew.
func (s *Sources) parcel(owner, digest string) (*source.Parcel, error) {
	namespace := namespaceOf(owner)
	if p := s.depot.recent(namespace, digest); p != nil {
		return p, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.depot.opts.Now()
	f, told := s.found[owner]
	told = told && f.digest == digest
	passing := f.err != nil && !errors.Is(f.err, ErrNotStored)
	if told && now.Sub(f.at) < believe && (!passing || now.Sub(f.at) < lookAgain) {
		if passing {
			s.board.Untold() // and then it is looked for again
		}
		return f.parcel, f.err
	}
	s.look(owner, namespace, digest)
	if told && f.err != nil {
		return nil, f.err // until more is known
	}
	return nil, source.ErrAsked
}

// look has the shelf asked, once for all who want to know.
func (s *Sources) look(owner, namespace, digest string) {
	id := namespace + "/" + digest
	if f := s.flights[id]; f != nil {
		f.owners[owner] = true
		return
	}
	s.flights[id] = &flight{namespace: namespace, digest: digest, owners: map[string]bool{owner: true}}
	s.todo.Post(id)
}

// fly looks for one snapshot, and tells those who asked.
func (s *Sources) fly(ctx context.Context, id string) {
	s.mu.Lock()
	f := s.flights[id]
	s.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	p, err := s.depot.Parcel(within, f.namespace, f.digest)
	if err != nil && !errors.Is(err, ErrNotStored) && !errors.Is(err, source.ErrDamaged) && !errors.Is(err, ErrInvalid) {
		err = fmt.Errorf("%w: %w", source.ErrAway, err)
	}
	if ctx.Err() != nil {
		return // who asked is stopping as well
	}
	now := s.depot.opts.Now()
	s.mu.Lock()
	for owner, old := range s.found {
		if now.Sub(old.at) > believe {
			delete(s.found, owner)
		}
	}
	for owner := range f.owners {
		s.found[owner] = found{digest: f.digest, parcel: p, err: err, at: now}
	}
	delete(s.flights, id)
	s.mu.Unlock()
	s.board.Post(news)
}

// news is what the board tells: whoever waits asks again, whatever came. One
// word for all of it, so that a thousand answers are not told one by one.
const news = "code"

// Changes tells when to ask again.
func (s *Sources) Changes() <-chan string { return s.board.Changes() }

// Start looks for what is asked for, and has those ask again whom the shelf did
// not answer, until ctx ends.
func (s *Sources) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.board.RunAsking(ctx, lookAgain) })
	wg.Go(func() { s.todo.Run(ctx) })
	wg.Go(func() { s.todo.Serve(ctx, looks, namespaceOf, func(id string) { s.fly(ctx, id) }) })
	wg.Wait()
	return nil
}

func namespaceOf(owner string) string {
	namespace, _, _ := strings.Cut(owner, "/")
	return namespace
}
