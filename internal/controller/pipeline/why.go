package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	// mostDifferences is how many differences are told of by name.
	mostDifferences = 8
	// longestWhy is how long the words may be.
	longestWhy = 2048
)

// why says in words why a stage computes what it computes.
func (w *work) why(ctx context.Context) (string, error) {
	view, err := w.books.Results.At(ctx, resultsBranch)
	if errors.Is(err, fs.ErrNotExist) {
		view, err = nil, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the results: %w", err)
	}
	e, err := w.plan.Explain(ctx, view)
	if err != nil {
		return "", err
	}
	var words []string
	for i, d := range e.Recipe {
		if i == mostDifferences {
			words = append(words, fmt.Sprintf("and %d more", len(e.Recipe)-i))
			break
		}
		words = append(words, d.String())
	}
	switch {
	case len(words) > 0:
	case e.Why != "":
		words = append(words, e.Why)
	default:
		words = append(words, fmt.Sprintf("%s new or different", datums(e.Work+e.Reused)))
	}
	if e.Reused > 0 {
		words = append(words, fmt.Sprintf("%d of them have results already", e.Reused))
	}
	if e.Seconds >= 1 {
		words = append(words, fmt.Sprintf("about %.0f s of work for one worker, by %d results of before", e.Seconds, e.Samples))
	}
	text := strings.Join(words, "; ")
	return text[:min(len(text), longestWhy)], nil
}
