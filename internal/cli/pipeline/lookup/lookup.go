// Package lookup finds the pipelines and runs that words of a command line mean.
//
// It must not know any verb.
package lookup

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

// Ended says that a run, or a stage of it, goes on no more.
func Ended(phase v1alpha1.RunPhase) bool {
	return phase == v1alpha1.RunSucceeded || phase == v1alpha1.RunFailed || phase == v1alpha1.RunCancelled
}

// Pipeline reads a pipeline. One that is not there is an error of exit code 3.
func Pipeline(ctx context.Context, server client.Client, namespace, name string) (*v1alpha1.Pipeline, error) {
	p := &v1alpha1.Pipeline{}
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
	if err == nil {
		return p, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading pipeline %s: %w", name, err)
	}
	list := &v1alpha1.PipelineList{}
	var names []string
	if server.List(ctx, list, client.InNamespace(namespace)) == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return nil, exit.NotFound("there is no pipeline %s in namespace %s%s", name, namespace, suggestion.Phrase(name, names))
}

// Runs are the runs of a namespace, of one pipeline or, where that is empty, of
// all, the first first, without dry runs.
func Runs(ctx context.Context, server client.Client, namespace, pipeline string) ([]v1alpha1.PipelineRun, error) {
	list := &v1alpha1.PipelineRunList{}
	if err := server.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	runs := slices.DeleteFunc(list.Items, func(r v1alpha1.PipelineRun) bool {
		return r.Spec.DryRun || pipeline != "" && r.Spec.Pipeline != pipeline
	})
	slices.SortFunc(runs, func(a, b v1alpha1.PipelineRun) int { return plans.Order(&a, &b) })
	return runs, nil
}

// Run is the run that a word names: a run, or the last one of a pipeline.
func Run(ctx context.Context, server client.Client, namespace, name string) (*v1alpha1.PipelineRun, error) {
	run := &v1alpha1.PipelineRun{}
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run)
	if err == nil {
		return run, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading run %s: %w", name, err)
	}
	all, err := Runs(ctx, server, namespace, "")
	if err != nil {
		return nil, err
	}
	var last *v1alpha1.PipelineRun
	names := []string{}
	for i := range all {
		names = append(names, all[i].Name)
		if all[i].Spec.Pipeline == name {
			last = &all[i]
		}
	}
	if last != nil {
		return last, nil
	}
	p := &v1alpha1.Pipeline{}
	if server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p) == nil {
		return nil, exit.NotFound("pipeline %s has not run yet: %s", name, p.Status.Message)
	}
	return nil, exit.NotFound("there is no run and no pipeline %s in namespace %s%s", name, namespace, suggestion.Phrase(name, names))
}

// Identity is all runs with the identity of one.
func Identity(ctx context.Context, server client.Client, run *v1alpha1.PipelineRun) ([]v1alpha1.PipelineRun, error) {
	all, err := Runs(ctx, server, run.Namespace, "")
	return slices.DeleteFunc(all, func(r v1alpha1.PipelineRun) bool { return r.Spec.Identity != run.Spec.Identity }), err
}

// Stage is what is known of a stage of a run.
func Stage(run *v1alpha1.PipelineRun, name string) (*v1alpha1.StageStatus, error) {
	var names []string
	for i := range run.Status.Stages {
		if run.Status.Stages[i].Name == name {
			return &run.Status.Stages[i], nil
		}
		names = append(names, run.Status.Stages[i].Name)
	}
	return nil, exit.NotFound("run %s has no stage %s%s", run.Name, name, suggestion.Phrase(name, names))
}

// Complete proposes pipelines and, if they are asked for, runs for the first
// argument.
func Complete(f *connection.Factory, runs bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		namespace, err := f.Namespace()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		pipelines := &v1alpha1.PipelineList{}
		if f.Propose(cmd.Context(), pipelines, client.InNamespace(namespace)) {
			for i := range pipelines.Items {
				names = append(names, pipelines.Items[i].Name)
			}
		}
		list := &v1alpha1.PipelineRunList{}
		if runs && f.Propose(cmd.Context(), list, client.InNamespace(namespace)) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name+"\t"+string(list.Items[i].Status.Phase))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// One is the one argument that a command takes.
func One(args []string, what string) (string, error) {
	switch len(args) {
	case 0:
		return "", exit.Usage("name %s", what)
	case 1:
		return args[0], nil
	}
	return "", exit.Usage("one at a time: what is %q?", args[1])
}
