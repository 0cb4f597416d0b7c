// Package describe is the command `muster describe`: everything about one
// object on one page. A training job has a page of its own; other kinds have
// kubectl's.
package describe

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubectl "k8s.io/kubectl/pkg/describe"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe [KIND] NAME...",
		Short: "Show everything about a training job, or another object",
		Long: `Shows a training job on one page: how it is and why, its roles and members with
their nodes, GPUs and ports, times, use of GPUs, environment, code and events.
Objects of other kinds are shown the way kubectl does.`,
		Example: `  muster describe mnist
  muster describe pod mnist-worker-0
  muster describe node/gpu1`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.CompleteObjects(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("describe what? Give a training job's name; `muster get` lists them")
			}
			return run(cmd.Context(), f, args)
		},
	}
	return cmd
}

func run(ctx context.Context, f *connection.Factory, args []string) error {
	mapper, err := f.Mapper()
	if err != nil {
		return err
	}
	wanted, err := kind.Parse(mapper, args)
	if err != nil {
		return err
	}
	namespace, err := f.Namespace()
	if err != nil {
		return err
	}
	first := true
	for _, one := range wanted {
		if len(one.Names) == 0 {
			return exit.Usage("describe which of the %s? Give its name", one.Mapping.Resource.Resource)
		}
		for _, name := range one.Names {
			if !first {
				_, _ = fmt.Fprintln(f.Streams.Out)
			}
			first = false
			if err := describe(ctx, f, one, namespace, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// runs reports whether the object is a job of a kind that is not Muster's own,
// and a training job was made of it: its page tells more.
func runs(ctx context.Context, reader client.Reader, one kind.Wanted, namespace, name string) bool {
	if one.Mapping.GroupVersionKind.Group != kubeflowv1.GroupVersion.Group {
		return false
	}
	job := &v1alpha1.TrainingJob{}
	if reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job) != nil {
		return false
	}
	by := metav1.GetControllerOf(job)
	return by != nil && by.Kind == one.Mapping.GroupVersionKind.Kind
}

func describe(ctx context.Context, f *connection.Factory, one kind.Wanted, namespace, name string) error {
	reader, err := f.Client()
	if err != nil {
		return err
	}
	if one.Mapping.GroupVersionKind.GroupKind() == kind.TrainingJobs || runs(ctx, reader, one, namespace, name) {
		seen, err := observe(ctx, reader, namespace, name)
		if code, _ := exit.Of(err); code == exit.Missing {
			return describeUnmade(ctx, f, reader, namespace, name, err)
		}
		if err != nil {
			return err
		}
		seen.ends = ends(ctx, reader, seen.job)
		return seen.write(f.Streams.Out, f.Streams.OutStyle())
	}
	if one.Mapping.GroupVersionKind.Group == kubeflowv1.GroupVersion.Group {
		if err := headUnmade(ctx, f, reader, one.Mapping.GroupVersionKind, namespace, name); err != nil {
			return err
		}
	}
	describer, err := kubectl.Describer(f, one.Mapping)
	if err != nil {
		return fmt.Errorf("describing %s: %w", one.Mapping.Resource.Resource, err)
	}
	if !one.Namespaced() {
		namespace = ""
	}
	text, err := describer.Describe(namespace, name, kubectl.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err = io.WriteString(f.Streams.Out, text)
	return err
}

// describeUnmade describes a TFJob or PyTorchJob that has no training job. It returns
// missing if no such job exists.
func describeUnmade(ctx context.Context, f *connection.Factory, reader client.Reader, namespace, name string, missing error) error {
	foreign := member.Foreign(ctx, reader, namespace, name)
	if foreign == nil {
		return missing
	}
	mapper, err := f.Mapper()
	if err != nil {
		return err
	}
	gvk := foreign.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fmt.Errorf("asking the server for its kinds: %w", err)
	}
	return describe(ctx, f, kind.Wanted{Mapping: mapping, Names: []string{name}}, namespace, name)
}

// headUnmade writes a line about a TFJob or PyTorchJob that has no training job: the
// reason, and what to do.
func headUnmade(ctx context.Context, f *connection.Factory, reader client.Reader, gvk schema.GroupVersionKind, namespace, name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return client.IgnoreNotFound(err) // the describer reports an absent object
	}
	u, ours := member.UnmadeOf(object)
	if !ours {
		return nil
	}
	style := f.Streams.OutStyle()
	_, err := fmt.Fprintf(f.Streams.Out, "%s %s: %s\n\n", style.Paint(terminal.Bold, u.Reference()), style.Phase(u.Phase, u.Phase), u.Sentence())
	return err
}
