package opening

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// Server returns a client for datasets and the namespace that the command acts
// in.
func Server(f *connection.Factory) (client.WithWatch, string, error) {
	return f.Reach()
}

// Alone refuses, for a reason, what only an embedded Muster does.
func Alone(f *connection.Factory, reason string) error {
	_, embedded, err := f.EmbeddedHome()
	if err != nil || embedded {
		return err
	}
	return exit.With(exit.Failure, errors.New("the Muster that is meant is a cluster's: "+reason))
}

// Object reads a dataset. One that is not there is an error of exit code 3.
func Object(ctx context.Context, server client.Client, namespace, name string) (*v1alpha1.Dataset, error) {
	object := &v1alpha1.Dataset{}
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, Missing(ctx, server, namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading dataset %s: %w", name, err)
	}
	return object, nil
}

// Missing is the error, of exit code 3, for a dataset that is not there.
func Missing(ctx context.Context, server client.Client, namespace, name string) error {
	list := &v1alpha1.DatasetList{}
	var names []string
	if server.List(ctx, list, client.InNamespace(namespace)) == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	near := suggestion.Phrase(name, names)
	if near == "" {
		near = fmt.Sprintf("; `muster data create %s` makes it", name)
	}
	return exit.NotFound("there is no dataset %s in namespace %s%s", name, namespace, near)
}

// Complete proposes the names of datasets for the arguments whose places (from
// 0) are named; for the others it proposes files.
func Complete(f *connection.Factory, places ...int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		wanted := len(places) == 0
		for _, place := range places {
			wanted = wanted || place == len(args)
		}
		if !wanted || strings.ContainsAny(typed, "@:/") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return names(cmd.Context(), f), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func names(ctx context.Context, f *connection.Factory) []string {
	namespace, err := f.Namespace()
	if err != nil {
		return nil
	}
	list := &v1alpha1.DatasetList{}
	if !f.Propose(ctx, list, client.InNamespace(namespace)) {
		return nil
	}
	var found []string
	for i := range list.Items {
		found = append(found, list.Items[i].Name+"\t"+list.Items[i].Spec.Description)
	}
	return found
}
