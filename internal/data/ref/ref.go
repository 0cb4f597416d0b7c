// Package ref owns heads: which commit a branch, a tag or an open commit of
// one dataset is at.
//
// Vocabulary: a head is a [Name] and the commit that it is at; it moves by
// compare-and-swap alone, by itself or together with others, so that of two who move it
// at once one learns that he has been overtaken. It must not know what a commit is.
package ref

import (
	"context"
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/data/digest"
)

// Kind tells branches, which move, from tags, which do not, and from commits that are
// open.
type Kind string

// The kinds of heads. An open commit has the name of the branch that it is to be a commit
// of, once it is closed.
const (
	Branch Kind = "branch"
	Tag    Kind = "tag"
	Open   Kind = "open"
)

// Name is the name of a head.
type Name struct {
	Kind Kind
	// Name is 1 to 128 letters, digits, dots, dashes, underscores and slashes; see
	// [Name.Check].
	Name string
}

// String is the name as messages have it.
func (n Name) String() string {
	if n.Kind == Open {
		return "open commit of " + n.Name
	}
	return string(n.Kind) + " " + n.Name
}

// Check says what is wrong with a name.
func (n Name) Check() error {
	if n.Kind != Branch && n.Kind != Tag && n.Kind != Open {
		return fmt.Errorf("%q is no kind of head: it is a branch, a tag, or an open commit", n.Kind)
	}
	if len(n.Name) == 0 || len(n.Name) > 128 {
		return fmt.Errorf("the name of a %s has %d characters: give 1 to 128", n.Kind, len(n.Name))
	}
	for part := range strings.SplitSeq(n.Name, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.ContainsFunc(part, strange) {
			return fmt.Errorf("%q is no name for a %s: use letters, digits, dots, dashes, underscores and slashes, and begin no part with a dot or a dash", n.Name, n.Kind)
		}
	}
	return nil
}

func strange(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
		return false
	}
	return true
}

// Move is a head that goes from one commit to another. From is zero where there must be
// none of that name yet, To where it is removed. Where both are the same, it is a
// condition: the head has to be there, or, both zero, not to be there.
type Move struct {
	Name     Name
	From, To digest.ID
}

// Move is the head's way from one commit to another.
func (n Name) Move(from, to digest.ID) Move { return Move{Name: n, From: from, To: to} }

// Stays is the condition that the head is at a commit; zero: that there is none.
func (n Name) Stays(at digest.ID) Move { return n.Move(at, at) }

// Heads are the heads of one dataset. All of it may be called at once by many,
// also from several processes.
type Heads interface {
	// Get is where a head is. The error wraps [io/fs.ErrNotExist] where there is
	// none.
	Get(ctx context.Context, name Name) (digest.ID, error)
	// Swap moves heads, all of them or none, durably when it returns nil. If one is
	// elsewhere than it is said to be, nothing happens and the error is a [MovedError].
	Swap(ctx context.Context, moves ...Move) error
	// List is all of them.
	List(ctx context.Context) (map[Name]digest.ID, error)
}

// Seer are heads of which a move shows where all the others are, too: whoever moves them
// often has no need to ask.
type Seer interface {
	Heads
	// SwapSeeing does what Swap does. All is where the heads were at some moment
	// between the beginning of the call and its end, after the moves; nil where that is
	// not known.
	SwapSeeing(ctx context.Context, moves ...Move) (all map[Name]digest.ID, err error)
}

// SwapSeeing moves heads, and is where all are after that; nil where heads do not say.
func SwapSeeing(ctx context.Context, h Heads, moves ...Move) (all map[Name]digest.ID, err error) {
	if s, ok := h.(Seer); ok {
		return s.SwapSeeing(ctx, moves...)
	}
	return nil, h.Swap(ctx, moves...)
}

// MovedError says that a head is not where it was thought to be.
type MovedError struct {
	Name Name
	// Thought is where it was said to be, Found where it is; zero: nowhere.
	Thought, Found digest.ID
}

// Error implements error.
func (e *MovedError) Error() string {
	switch {
	case e.Thought.IsZero():
		return fmt.Sprintf("there is a %s already, at %s", e.Name, e.Found.Short())
	case e.Found.IsZero():
		return fmt.Sprintf("there is no %s any more: it was at %s", e.Name, e.Thought.Short())
	}
	return fmt.Sprintf("%s has moved from %s to %s meanwhile", e.Name, e.Thought.Short(), e.Found.Short())
}
