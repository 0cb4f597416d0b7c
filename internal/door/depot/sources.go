package depot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/environment/notice"
	"github.com/muster-dev/muster/internal/environment/source"
)

// Sources is the depot as those see it who prepare jobs. An owner is
// "<namespace>/..."; what it may have is what its namespace has.
type Sources struct {
	depot *Depot
	board *notice.Board
}

const (
	// lookTimeout bounds one look at the shelf.
	lookTimeout = 10 * time.Second
	// lookAgain is the pause after the shelf did not answer.
	lookAgain = 5 * time.Second
)

// Sources returns the depot as those see it who prepare jobs; [Sources.Start]
// tells them when to ask again.
func (d *Depot) Sources() *Sources { return &Sources{depot: d, board: notice.New()} }

// Ensure refuses code that is to be fetched from the web: the manager would
// fetch it from within the cluster's network, for whoever asks.
func (s *Sources) Ensure(string, string) source.State {
	return source.State{Phase: source.Failed, Message: "code.url: on a cluster code is not fetched from the web; download the script and submit it with muster run --script FILE"}
}

// Has reports whether a snapshot is stored. The error says that this cannot be
// known just now.
func (s *Sources) Has(owner, digest string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	has, err := s.depot.Has(ctx, namespaceOf(owner), digest)
	if err != nil {
		s.board.Untold()
	}
	return has, err
}

// Contains reports whether a stored snapshot holds a file. An error that wraps
// [source.ErrAway] says that this cannot be known just now.
func (s *Sources) Contains(owner, digest, path string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	p, err := s.depot.Parcel(ctx, namespaceOf(owner), digest)
	switch {
	case errors.Is(err, ErrNotStored), errors.Is(err, source.ErrDamaged), errors.Is(err, ErrInvalid):
		return false, err
	case err != nil:
		s.board.Untold()
		return false, fmt.Errorf("%w: %w", source.ErrAway, err)
	}
	return p.Contains(path), nil
}

// Changes tells when to ask again.
func (s *Sources) Changes() <-chan string { return s.board.Changes() }

// Start has those ask again whom the shelf did not answer, until ctx ends.
func (s *Sources) Start(ctx context.Context) error {
	s.board.RunAsking(ctx, lookAgain)
	return nil
}

func namespaceOf(owner string) string {
	namespace, _, _ := strings.Cut(owner, "/")
	return namespace
}
