package expiry

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// world is the state of a namespace.
type world struct {
	// datasets are those of states.
	datasets []v1alpha1.Dataset
	// owners are pipelines that are not gone, stages the branches of states of those that
	// have a Pipeline.
	owners, stages map[string]bool
	// runs are all runs by name; running reports whether one is unfinished.
	runs    map[string]bool
	running bool
}

// look reads the datasets first. So it sees a pipeline that is created afterwards, and a run that
// writes to such a dataset gives it another version.
func (s *sweep) look(ctx context.Context) (*world, error) {
	runs, pipelines, datasets := &v1alpha1.PipelineRunList{}, &v1alpha1.PipelineList{}, &v1alpha1.DatasetList{}
	for _, list := range []client.ObjectList{datasets, runs, pipelines} {
		if err := s.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return nil, fmt.Errorf("listing datasets, runs and pipelines: %w", err)
		}
	}
	w := &world{owners: map[string]bool{}, stages: map[string]bool{}, runs: map[string]bool{}}
	for i := range datasets.Items {
		if strings.HasPrefix(datasets.Items[i].Name, pipeline.StatesPrefix) {
			w.datasets = append(w.datasets, datasets.Items[i])
		}
	}
	for i := range runs.Items {
		run := &runs.Items[i]
		w.runs[run.Name] = true
		if !ended(run.Status.Phase) {
			w.owners[run.Spec.Pipeline] = true
			w.running = w.running || !run.Spec.DryRun
		}
	}
	for i := range pipelines.Items {
		p := &pipelines.Items[i]
		w.owners[p.Name] = true
		for k := range p.Spec.Stages {
			w.stages[pipeline.StateBranch(p.Name, p.Spec.Stages[k].Name)] = true
		}
	}
	return w, nil
}

// ended reports whether a run of that phase is over.
func ended(phase v1alpha1.RunPhase) bool {
	return phase == v1alpha1.RunSucceeded || phase == v1alpha1.RunFailed || phase == v1alpha1.RunCancelled
}

// abandoned reports whether the pipeline of a dataset of states is gone. A dataset that no pipeline
// made, or that has a tag, is not abandoned.
func (w *world) abandoned(d *v1alpha1.Dataset) bool {
	owner := strings.TrimPrefix(d.Name, pipeline.StatesPrefix)
	return !w.owners[owner] && d.Labels[v1alpha1.LabelPipeline] == owner && len(d.Spec.Tags) == 0
}

// since returns when a dataset of states was abandoned: at this sweep, if no earlier one has
// noticed it, or at a time that is yet to come.
func (s *sweep) since(w *world, d *v1alpha1.Dataset) (time.Time, bool) {
	if !w.abandoned(d) {
		return time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339, d.Annotations[v1alpha1.AnnotationAbandoned])
	if err != nil || since.After(s.At) {
		return s.At.Truncate(time.Second), true
	}
	return since, true
}

// mark annotates abandoned datasets of states with the time, and removes the annotation of those
// whose pipeline exists again.
func (s *sweep) mark(ctx context.Context) error {
	w, err := s.look(ctx)
	if err != nil || s.DryRun {
		return err
	}
	for i := range w.datasets {
		d := &w.datasets[i]
		want := ""
		if since, abandoned := s.since(w, d); abandoned {
			want = since.UTC().Format(time.RFC3339)
		}
		if d.Annotations[v1alpha1.AnnotationAbandoned] == want {
			continue
		}
		before := d.DeepCopy()
		if want == "" {
			delete(d.Annotations, v1alpha1.AnnotationAbandoned)
		} else {
			if d.Annotations == nil {
				d.Annotations = map[string]string{}
			}
			d.Annotations[v1alpha1.AnnotationAbandoned] = want
		}
		if err := s.Client.Patch(ctx, d, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotating abandoned dataset %s: %w", d.Name, err)
		}
	}
	return nil
}

// remove removes the datasets of states that were abandoned long ago. One that has changed
// since it was read stays: a run has written to it.
func (s *sweep) remove(ctx context.Context) error {
	w, err := s.look(ctx)
	if err != nil {
		return err
	}
	for i := range w.datasets {
		d := &w.datasets[i]
		since, abandoned := s.since(w, d)
		if !abandoned || !s.over(since) {
			continue
		}
		if ours, err := s.onlyStates(ctx, d.Name); err != nil || !ours {
			if err != nil {
				return fmt.Errorf("reading dataset %s: %w", d.Name, err)
			}
			continue
		}
		if !s.DryRun {
			err := s.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("removing dataset %s: %w", d.Name, err)
			}
		}
		s.states++
	}
	return nil
}

// onlyStates reports whether each branch of a dataset is at the state of a stage of its pipeline,
// so that it holds no other data.
func (s *sweep) onlyStates(ctx context.Context, name string) (bool, error) {
	states := s.dataset(name)
	heads, err := states.Heads(ctx)
	if err != nil {
		return false, err
	}
	for _, head := range heads {
		c, err := states.Resolve(ctx, head.Commit.String())
		if err != nil {
			return false, err
		}
		if says := pipeline.ProvenanceOf(&c); says == nil || pipeline.StatesDataset(says.Pipeline) != name {
			return false, nil
		}
	}
	return true, nil
}
