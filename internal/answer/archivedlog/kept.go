package archivedlog

import (
	"errors"
	"time"
)

// ErrName is the error for a name that is no name of a namespace or job.
var ErrName = errors.New("this is no name of a namespace, or no UID of a job")

// Kept says which part of an archive is wanted.
type Kept struct {
	// Pod is the name; several pods may have borne it, one after the other.
	Pod string
	// Which of them.
	Which Which
	// Container is the member's; empty: all containers.
	Container string
	// Since leaves out older lines; zero: none.
	Since time.Time
	// Tail is how many of the last lines to read; negative: all.
	Tail int
}

// Which chooses among the pods that bore one name.
type Which int

// The choices.
const (
	// All of them, the oldest first.
	All Which = iota
	// Latest is the last of them.
	Latest
	// Earlier is all but the last.
	Earlier
)

// words are the choices in a request.
var words = []string{"all", "latest", "earlier"}

// String is how a request names the choice.
func (w Which) String() string { return words[w] }

// ParseWhich reads a choice; empty means all. It is false for any other word.
func ParseWhich(word string) (Which, bool) {
	if word == "" {
		return All, true
	}
	for i, one := range words {
		if one == word {
			return Which(i), true
		}
	}
	return All, false
}
