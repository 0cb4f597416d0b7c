package trace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/dataset"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

// search is a trace under way.
type search struct {
	*plans.Tracer
	dataset *opening.Dataset
	// results is what stages made; nil: nothing is known of that.
	results *data.View
}

func (o *options) run(ctx context.Context, a address.Address) error {
	d, err := opening.Open(ctx, o.factory, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	c, err := d.Commit(ctx, a)
	if err != nil {
		return err
	}
	s := &search{dataset: d, Tracer: &plans.Tracer{Trees: d.Store.Trees(), States: d.Dataset}}
	s.results, err = d.Store.Dataset(plans.ResultsDataset).At(ctx, "")
	_, missing := errors.AsType[*dataset.MissingError](err)
	switch {
	case err == nil:
		s.Results = plans.Results{Trees: s.Trees, Root: s.results.Commit().Tree}
	case !missing && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("reading the results of stages: %w", err)
	}
	show := o.origin
	if o.made {
		show = o.descendants
	}
	err = show(ctx, s, c, a)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("%s has no %s; `muster data ls %s` lists what there is", version(a), a.Path, version(a))
	}
	return err
}

// version is an address without its path.
func version(a address.Address) string {
	if a.Version == "" && a.Back == 0 {
		return a.Dataset
	}
	return a.Dataset + "@" + a.Revision()
}

func (o *options) origin(ctx context.Context, s *search, c commit.Commit, a address.Address) error {
	found, err := s.Origin(ctx, a.Dataset, c, a.Path)
	if err != nil {
		return err
	}
	document, err := s.document(ctx, found)
	if err != nil {
		return err
	}
	return o.printOrigin(document)
}

func (o *options) descendants(ctx context.Context, s *search, c commit.Commit, a address.Address) error {
	files, err := s.files(ctx, c, a.Path)
	if err != nil {
		return err
	}
	heads, err := s.heads(ctx, o.all)
	if err != nil {
		return err
	}
	found := []Made{}
	err = s.Descendants(ctx, heads, a.Dataset, files, func(d plans.Descendant) error {
		found = append(found, Made{
			Dataset: d.Dataset, Commit: d.Commit.ID.String(), Paths: d.Paths, Pipeline: d.Provenance.Pipeline, Stage: d.Provenance.Stage,
			Run: d.Provenance.Run, Datum: d.Datum, Of: d.Of,
		})
		return nil
	})
	if err != nil {
		return err
	}
	return o.printMade(a, found)
}

// files are those at a path, with their contents.
func (s *search) files(ctx context.Context, c commit.Commit, path string) (map[string]digest.ID, error) {
	view, err := s.dataset.At(ctx, c.ID.String())
	if err != nil {
		return nil, err
	}
	files := map[string]digest.ID{}
	err = view.From(ctx, path, func(e *data.Entry) error {
		switch {
		case path == "" || e.Path == path || strings.HasPrefix(e.Path, path+"/"):
			files[e.Path] = e.Content
		case e.Path > path+"0": // "0" comes after "/"
			return data.Stop
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%q: %w", path, fs.ErrNotExist)
	}
	return files, err
}

// heads are the commits that branches and tags of the namespace's datasets are at, or all
// that led there.
func (s *search) heads(ctx context.Context, all bool) ([]plans.Head, error) {
	store := s.dataset.Store
	list := &v1alpha1.DatasetList{}
	if err := store.Server.List(ctx, list, client.InNamespace(store.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the datasets: %w", err)
	}
	var heads []plans.Head
	for i := range list.Items {
		object := &list.Items[i]
		if object.Name == plans.ResultsDataset || strings.HasPrefix(object.Name, plans.StatesDataset("")) {
			continue
		}
		d, seen := store.Dataset(object.Name), map[digest.ID]bool{}
		for _, at := range commitsOf(object) {
			err := d.Log(ctx, at, func(c commit.Commit) error {
				if seen[c.ID] {
					return data.Stop
				}
				seen[c.ID] = true
				heads = append(heads, plans.Head{Dataset: object.Name, Commit: c})
				if !all {
					return data.Stop
				}
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("reading dataset %s: %w", object.Name, err)
			}
		}
	}
	return heads, nil
}

// commitsOf are those that branches and tags are at.
func commitsOf(object *v1alpha1.Dataset) []string {
	var all []string
	for i := range object.Spec.Branches {
		all = append(all, string(object.Spec.Branches[i].Commit))
	}
	for i := range object.Spec.Tags {
		all = append(all, string(object.Spec.Tags[i].Commit))
	}
	return all
}
