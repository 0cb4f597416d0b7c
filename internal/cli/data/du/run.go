package du

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Document is what -o json prints.
type Document struct {
	Branches []Branch `json:"branches"`
	// StoreBytes is what the store takes, with all versions of all datasets (on one
	// machine of all namespaces, which share a store), and with what a collection
	// would free.
	StoreBytes int64 `json:"storeBytes"`
}

// Branch is one branch of a dataset, or its open commit.
type Branch struct {
	Dataset string `json:"dataset"`
	Branch  string `json:"branch"`
	// Open says that it is the branch's commit that is not closed yet.
	Open bool `json:"open,omitempty"`
	// Files and Bytes are as they would be on a disk.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (o *options) run(ctx context.Context, names []string) error {
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	objects, err := find(ctx, server, namespace, names)
	if err != nil {
		return err
	}
	document := Document{Branches: []Branch{}}
	if document.StoreBytes, err = opening.Size(ctx, o.factory); err != nil {
		return err
	}
	for i := range objects {
		for _, b := range objects[i].Spec.Branches {
			document.Branches = append(document.Branches, Branch{Dataset: objects[i].Name, Branch: string(b.Name), Files: b.Files, Bytes: b.Bytes})
		}
		for _, c := range objects[i].Spec.Open {
			document.Branches = append(document.Branches, Branch{Dataset: objects[i].Name, Branch: string(c.Name), Open: true, Files: c.Files, Bytes: c.Bytes})
		}
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, document)
	}
	return o.table(document)
}

// find reads the datasets that are named, or all of the namespace.
func find(ctx context.Context, server client.Client, namespace string, names []string) ([]v1alpha1.Dataset, error) {
	if len(names) == 0 {
		list := &v1alpha1.DatasetList{}
		if err := server.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing the datasets: %w", err)
		}
		return list.Items, nil
	}
	var objects []v1alpha1.Dataset
	for _, name := range names {
		object, err := opening.Object(ctx, server, namespace, name)
		if err != nil {
			return nil, err
		}
		objects = append(objects, *object)
	}
	return objects, nil
}

func (o *options) table(document Document) error {
	out := o.factory.Streams.Out
	if len(document.Branches) > 0 {
		table := terminal.NewTable("DATASET", "BRANCH", "FILES", "SIZE")
		for _, b := range document.Branches {
			name := b.Branch
			if b.Open {
				name += " (open commit)"
			}
			table.Row(b.Dataset, name, fmt.Sprint(b.Files), terminal.Size64(b.Bytes))
		}
		if err := table.Write(out, o.factory.Streams.OutStyle(), ""); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "the store takes %s, with all versions of all datasets\n", terminal.Size64(document.StoreBytes))
	return err
}
