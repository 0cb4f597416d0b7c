package rm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/question"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

// Document is what -o json prints of a commit that removed paths.
type Document struct {
	Dataset string `json:"dataset"`
	Branch  string `json:"branch"`
	Commit  string `json:"commit"`
	Removed int64  `json:"removed"`
	// Open says that it went to the open commit of the branch, which Commit is.
	Open bool `json:"open,omitempty"`
}

// paths removes paths of one branch, as one commit.
func (o *options) paths(ctx context.Context, wanted []address.Address) (err error) {
	first := wanted[0]
	d, err := opening.Open(ctx, o.factory, first.Dataset)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	branch, err := d.Head(ctx, first)
	if err != nil {
		return err
	}
	session, err := d.Session(ctx, branch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	if session.Base() == nil {
		if _, err := d.Commit(ctx, first); err != nil {
			return err
		}
	}
	var removed int64
	var names []string
	for _, a := range wanted {
		count, err := session.Remove(ctx, a.Path)
		if inside := address.Inside(a.Path); err == nil && count == 0 && inside != a.Path && !address.IsPattern(a.Path) {
			count, err = session.Remove(ctx, inside)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", a, err)
		}
		if count == 0 {
			return missing(a)
		}
		removed += count
		names = append(names, "/"+a.Path)
	}
	message := o.message
	if message == "" {
		message = "Remove " + strings.Join(names, ", ")
	}
	result, err := session.Commit(ctx, data.CommitOptions{Author: person.Author(ctx, o.factory.Client), Message: message})
	if err != nil {
		return fmt.Errorf("removing from %s@%s: %w", first.Dataset, branch, err)
	}
	document := Document{Dataset: first.Dataset, Branch: branch, Commit: result.Commit.ID.String(), Removed: removed, Open: session.Target().Kind == ref.Open}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, document)
	}
	what := first.Dataset + "@" + branch
	if document.Open {
		what = "the open commit of " + what
	}
	unsaid := ""
	if document.Open && o.message != "" {
		unsaid = " (what -m says is not kept: say it to muster data close)"
	}
	_, err = fmt.Fprintf(o.factory.Streams.Out, "%s removed; %s is at %s%s\n", terminal.Count(removed, "file"), what, result.Commit.ID.Short(), unsaid)
	return err
}

// missing says that there is nothing to be removed.
func missing(a address.Address) error {
	if address.IsPattern(a.Path) {
		return exit.NotFound("%s: nothing matches, and nothing was removed", a)
	}
	return exit.NotFound("%s: there is no such file or folder, and nothing was removed", a)
}

// datasets removes whole datasets: all of them are looked for before any goes.
func (o *options) datasets(ctx context.Context, wanted []address.Address) error {
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	var objects []*v1alpha1.Dataset
	var names []string
	for _, a := range wanted {
		object, err := opening.Object(ctx, server, namespace, a.Dataset)
		if err != nil {
			return err
		}
		objects = append(objects, object)
		names = append(names, object.Name)
	}
	if !o.yes {
		ask := "Remove " + strings.Join(names, ", ") + " with all versions of the data?"
		if err := question.Confirm(ctx, o.factory.Streams, ask, "nothing was removed"); err != nil {
			return err
		}
	}
	freed, err := freed(ctx, o.factory)
	if err != nil {
		return err
	}
	for _, object := range objects {
		err := server.Delete(ctx, object, client.Preconditions{UID: &object.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing dataset %s: %w", object.Name, err)
		}
		line := fmt.Sprintf("dataset %s removed; %s", object.Name, freed)
		if *o.format != output.Human {
			if err := output.Print(o.factory.Streams.Out, *o.format, map[string]string{"dataset": object.Name}); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(o.factory.Streams.Out, line); err != nil {
			return err
		}
	}
	return nil
}
