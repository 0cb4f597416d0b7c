package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// usedFolder has a folder for each day on which results were used, and in it an
// empty file for each of them. A result is used when it is recorded, when a plan
// takes it, and when a stage's state lets go of it. It may be removed once no stage's
// last state has it, and it was not used for as many days as results are kept.
const usedFolder = "used/"

// day is a day as folders are named, in UTC.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// UsedPath is the path of the empty file which says that a result was used on a
// day. Whoever records a result may write it, too, so that what a run recorded that
// never ended goes as well: a result without any is kept.
func UsedPath(at time.Time, key digest.ID) string {
	return usedFolder + day(at) + "/" + ResultPath(key)
}

// Used are the edits of the dataset of results which say that what the plan computed,
// took and let go of was used at a time. There are as many as the plan has changes.
// What was computed is left out where whoever recorded it has noted that already.
func (p *Plan) Used(at time.Time, noted bool) []tree.Edit {
	seen := map[digest.ID]bool{}
	var edits []tree.Edit
	use := func(key digest.ID) {
		if seen[key] {
			return
		}
		seen[key] = true
		path := UsedPath(at, key)
		edits = append(edits, tree.Edit{Path: path, Entry: &tree.Entry{Path: path, Kind: tree.File}})
	}
	if !noted {
		for i := range p.Work {
			use(p.Work[i].Key)
		}
	}
	for i := range p.Reused {
		use(p.Reused[i].Key)
	}
	for _, was := range p.Gone {
		if !was.Failed {
			use(was.Key)
		}
	}
	return edits
}

// Holding is what keeps results.
type Holding struct {
	// States are the last states of all stages: what one of them has stays.
	States []*State
	// Needed are results that runs on their way have taken, or are to take.
	Needed map[digest.ID]bool
	// Run says whether a run of a name is still there, so that its datums may be
	// asked for by their names. Default: all are.
	Run func(name string) bool
}

// Prune finds which results may be removed at a time: edits of the dataset of
// results, in no order. It costs what was used on the days that are over, and all
// datums of all stages if that is anything.
func Prune(ctx context.Context, results Results, h Holding, at time.Time, keep time.Duration) ([]tree.Edit, error) {
	p := &pruner{Results: results, today: day(at), last: day(at.Add(-keep)), live: map[digest.ID]bool{}, uses: map[digest.ID][]string{}}
	if err := p.days(ctx); err != nil {
		return nil, fmt.Errorf("looking for results that were not used since %s: %w", p.last, err)
	}
	if err := p.runs(ctx, h.Run); err != nil {
		return nil, fmt.Errorf("looking for datums of runs that are gone: %w", err)
	}
	if len(p.over) == 0 {
		return p.edits, nil
	}
	for key := range h.Needed {
		p.live[key] = true
	}
	for _, s := range h.States {
		err := s.Each(ctx, results.Trees, func(_ string, key digest.ID) error {
			p.live[key] = true
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading which results are in use: %w", err)
		}
	}
	for _, key := range p.over {
		if err := p.remove(ctx, key); err != nil {
			return nil, fmt.Errorf("removing result %s: %w", key.Short(), err)
		}
	}
	return p.edits, nil
}

type pruner struct {
	Results
	// last is the last day whose use does not count any more.
	today, last string
	// over are results that were used then, uses what says so of each; later are the
	// days after.
	over  []digest.ID
	uses  map[digest.ID][]string
	later []string
	live  map[digest.ID]bool
	edits []tree.Edit
}

// days reads which results were used on days that are over.
func (p *pruner) days(ctx context.Context) error {
	return p.folders(ctx, usedFolder, func(on string) (bool, error) {
		if on > p.last {
			p.later = append(p.later, on)
		}
		return on <= p.last, nil
	}, func(path, inside string) error {
		key, err := digest.Parse(strings.Replace(inside, "/", "", 1))
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		if len(p.uses[key]) == 0 {
			p.over = append(p.over, key)
		}
		p.uses[key] = append(p.uses[key], path)
		return nil
	})
}

// runs lets go of the names of datums of runs that are gone.
func (p *pruner) runs(ctx context.Context, there func(string) bool) error {
	if there == nil {
		return nil
	}
	return p.folders(ctx, RunsFolder, func(run string) (bool, error) { return !there(run), nil }, func(path, _ string) error {
		p.edits = append(p.edits, tree.Edit{Path: path})
		return nil
	})
}

// folders shows the paths, and what of each is behind the folder, of those folders
// in a folder that enter takes; the others cost one look each.
func (p *pruner) folders(ctx context.Context, in string, enter func(name string) (bool, error), see func(path, inside string) error) error {
	entered := ""
	for at := in; ; {
		next := ""
		for e, err := range p.Trees.From(ctx, p.Root, at) {
			if err != nil {
				return err
			}
			rest, ok := strings.CutPrefix(e.Path, in)
			if !ok {
				return nil
			}
			name, inside, _ := strings.Cut(rest, "/")
			if name != entered {
				take, err := enter(name)
				if err != nil {
					return err
				}
				if !take {
					next = in + name + "0" // behind all of it
					break
				}
				entered = name
			}
			if err := see(e.Path, inside); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		at = next
	}
}

// remove removes a result that nobody has and that was not used since. One that is in
// use was used today, so that it goes some time after nobody has it any more, also if
// nobody lets go of it: its pipeline is deleted.
func (p *pruner) remove(ctx context.Context, key digest.ID) error {
	newer, err := p.newer(ctx, key)
	if err != nil {
		return err
	}
	young, err := p.young(ctx, key)
	if err == nil && !young && newer != key {
		young, err = p.young(ctx, newer)
	}
	if err != nil {
		return err
	}
	for _, use := range p.uses[key] {
		p.edits = append(p.edits, tree.Edit{Path: use})
	}
	path := ResultPath(key)
	switch {
	case p.live[key] || p.live[newer]:
		use := usedFolder + p.today + "/" + path
		p.edits = append(p.edits, tree.Edit{Path: use, Entry: &tree.Entry{Path: use, Kind: tree.File}})
		return nil
	case young && newer != key:
		p.edits = p.edits[:len(p.edits)-len(p.uses[key])] // it is asked again at the next sweep
		return nil
	case young:
		return nil
	}
	for _, folder := range []string{path + "/", FailedPath(key) + "/"} {
		for e, err := range p.Trees.From(ctx, p.Root, folder) {
			if err != nil {
				return err
			}
			if !strings.HasPrefix(e.Path, folder) {
				break
			}
			p.edits = append(p.edits, tree.Edit{Path: e.Path})
		}
	}
	return nil
}

// newer is the result that was asked for anew in place of one, and is found by the
// key of that as long as that is there itself; else the key.
func (p *pruner) newer(ctx context.Context, key digest.ID) (digest.ID, error) {
	link, err := p.Trees.Get(ctx, p.Root, ResultPath(key)+"/"+againFile)
	if err != nil {
		return key, ignoreMissing(err)
	}
	to, err := parsePast(&link)
	if err != nil {
		return key, err
	}
	return to.files, nil
}

// young says that a result was used on a day that counts.
func (p *pruner) young(ctx context.Context, key digest.ID) (bool, error) {
	for _, on := range slices.Backward(p.later) {
		_, err := p.Trees.Get(ctx, p.Root, usedFolder+on+"/"+ResultPath(key))
		if err == nil || ignoreMissing(err) != nil {
			return err == nil, err
		}
	}
	return false, nil
}
