package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/muster-dev/muster/internal/data/digest"
)

// lookUp looks for results.
func (p *Plan) lookUp(ctx context.Context, datums []Datum, before map[string]Lost) error {
	r := p.request
	recipes := []digest.ID{r.Recipe.ID}
	if !r.anew() {
		accepted, err := r.accepted()
		if err != nil {
			return err
		}
		recipes = append(recipes, accepted...)
	}
	tasks := make([]Task, len(datums))
	for i := range datums {
		tasks[i] = Task{Datum: datums[i], Key: Key(recipes[0], datums[i].Files)}
		if r.anew() {
			tasks[i].Key = runKey(tasks[i].Key, r.Run)
		}
	}
	missing := make([]int, len(tasks))
	for i := range missing {
		missing[i] = i
	}
	hit := make([]bool, len(tasks))
	results := Results{Trees: r.Trees, Root: r.Results}
	for _, recipe := range recipes {
		keys := make([]digest.ID, len(missing))
		for i, k := range missing {
			if keys[i] = tasks[k].Key; recipe != recipes[0] {
				keys[i] = Key(recipe, tasks[k].Files)
			}
		}
		found, err := results.Find(ctx, keys)
		if err != nil {
			return err
		}
		var still []int
		for i, k := range missing {
			if found[i].IsZero() {
				still = append(still, k)
				continue
			}
			hit[k], tasks[k].Key = true, found[i]
		}
		missing = still
	}
	p.sort(tasks, hit, before)
	return nil
}

// accepted are the recipes whose results count as well.
func (r *Request) accepted() ([]digest.ID, error) {
	var all []digest.ID
	for _, text := range r.Stage.Spec.AcceptKeys {
		id, err := digest.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("acceptKeys: %w", err)
		}
		all = append(all, id)
	}
	return all, nil
}

// sort puts tasks where they belong.
func (p *Plan) sort(tasks []Task, hit []bool, before map[string]Lost) {
	for i, t := range tasks {
		was, known := before[t.Name]
		delete(before, t.Name)
		switch {
		case !hit[i]:
			p.Work = append(p.Work, t)
		case known && was.Key == t.Key && !was.Failed:
			if p.Whole {
				p.Reused = append(p.Reused, t)
			}
			continue
		default:
			p.Reused = append(p.Reused, t)
		}
		if known {
			p.Gone = append(p.Gone, was)
		}
	}
	for _, was := range before {
		p.Gone = append(p.Gone, was)
	}
	slices.SortFunc(p.Gone, func(a, b Lost) int { return cmp.Compare(a.Name, b.Name) })
}
