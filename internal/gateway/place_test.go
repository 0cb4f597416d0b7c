package gateway

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// seer are heads that are somewhere else when a test says so.
type seer struct {
	ref.Heads
	all   map[ref.Name]digest.ID
	lists int
	fail  error
	// between is called after a move, before it is answered.
	between func()
}

func (s *seer) List(context.Context) (map[ref.Name]digest.ID, error) {
	s.lists++
	return maps.Clone(s.all), nil
}

func (s *seer) SwapSeeing(_ context.Context, moves ...ref.Move) (map[ref.Name]digest.ID, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	for _, move := range moves {
		s.all[move.Name] = move.To
	}
	seen := maps.Clone(s.all)
	if s.between != nil {
		s.between()
	}
	return seen, nil
}

// TestAMoveShowsWhereHeadsAre: who moves heads does not ask where they are, and never
// takes what it has seen for newer than what others moved meanwhile.
func TestAMoveShowsWhereHeadsAre(t *testing.T) {
	id := func(n byte) digest.ID { return digest.Of([]byte{n}) }
	main, next := ref.Name{Kind: ref.Branch, Name: "main"}, ref.Name{Kind: ref.Branch, Name: "next"}
	from := &seer{all: map[ref.Name]digest.ID{main: id(1), next: id(1)}}
	h := &heads{from: from}
	is := func(what string, since time.Time, lists int, want map[ref.Name]digest.ID) {
		t.Helper()
		before := from.lists
		got, err := h.read(t.Context(), since)
		if err != nil || !maps.Equal(got, want) || from.lists-before != lists {
			t.Errorf("%s: %v, %v, asked %d times; want %v, asked %d times", what, got, err, from.lists-before, want, lists)
		}
	}
	swap := func(name ref.Name, to digest.ID) {
		t.Helper()
		if err := h.Swap(t.Context(), name.Move(digest.ID{}, to)); err != nil {
			t.Fatal(err)
		}
	}
	is("at first", time.Time{}, 1, map[ref.Name]digest.ID{main: id(1), next: id(1)})
	from.all[next] = id(2) // somebody else's move
	begun := time.Now()
	swap(main, id(3))
	is("after a move", begun, 0, map[ref.Name]digest.ID{main: id(3), next: id(2)})
	is("later than it", time.Now(), 1, map[ref.Name]digest.ID{main: id(3), next: id(2)})

	// Two at once, whose answers come in the other order.
	begun = time.Now()
	from.between = func() {
		from.between = nil
		swap(next, id(5))
	}
	swap(main, id(4))
	is("after two at once", begun, 0, map[ref.Name]digest.ID{main: id(4), next: id(5)})

	// Somebody asks while a move is on its way: that is newer.
	from.between = func() {
		from.between = nil
		from.all[next] = id(6)
		is("meanwhile", time.Now(), 1, map[ref.Name]digest.ID{main: id(7), next: id(6)})
	}
	swap(main, id(7))
	is("after that", begun, 0, map[ref.Name]digest.ID{main: id(7), next: id(6)})

	from.fail = errors.New("nobody knows")
	if err := h.Swap(t.Context(), main.Move(id(7), id(8))); !errors.Is(err, from.fail) {
		t.Errorf("a move that failed: %v", err)
	}
	is("where it is not known", time.Time{}, 1, map[ref.Name]digest.ID{main: id(7), next: id(6)})
}
