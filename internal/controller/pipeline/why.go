package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/pipeline"
)

const (
	// mostDifferences is how many differences are told of by name.
	mostDifferences = 8
	// longestWhy is how long the words may be.
	longestWhy = 2048
)

// why says in words why a stage computes what it computes.
func (w *work) why(ctx context.Context) (string, error) {
	e, err := w.explained(ctx)
	if err != nil {
		return "", err
	}
	words := different(e)
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
	return sentence(words), nil
}

// explained is the plan's explanation by the results that there are.
func (w *work) explained(ctx context.Context) (*pipeline.Explanation, error) {
	view, err := w.results(ctx)
	if err != nil {
		return nil, err
	}
	return w.plan.Explain(ctx, view)
}

// results are those that there are; nil where there has never been any.
func (w *work) results(ctx context.Context) (*data.View, error) {
	view, err := w.books.Results.At(ctx, resultsBranch)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	return view, nil
}

// absent says that there is no such thing, or no dataset in which it could be.
func absent(err error) bool {
	_, missing := errors.AsType[*dataset.MissingError](err)
	return missing || errors.Is(err, fs.ErrNotExist)
}

// different are the differences beside files, in words.
func different(e *pipeline.Explanation) []string {
	var words []string
	if e.Brought && len(e.Recipe) > 0 {
		words = append(words, "the results that were brought from another Muster are not by the same recipe")
	}
	for i, d := range e.Recipe {
		if i == mostDifferences {
			words = append(words, fmt.Sprintf("and %d more", len(e.Recipe)-i))
			break
		}
		words = append(words, d.String())
	}
	return words
}

// sentence is words as a status has room for them.
func sentence(words []string) string {
	text := strings.Join(words, "; ")
	return text[:min(len(text), longestWhy)]
}
