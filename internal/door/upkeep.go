package door

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/depot"
)

const (
	// firstUpkeep is how long after the election code is pruned first, and
	// upkeepEvery how long after that again.
	firstUpkeep = time.Minute
	upkeepEvery = 24 * time.Hour
)

// Upkeep removes code that nobody needs any more, once a day, in the replica
// that is elected.
type Upkeep struct {
	Code *depot.Depot
	// Jobs shows pipelines and their runs, training jobs and pods.
	Jobs client.Reader
	Log  *slog.Logger
}

// Start prunes until ctx ends.
func (u *Upkeep) Start(ctx context.Context) error {
	timer := time.NewTimer(firstUpkeep)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		pruned, err := u.prune(ctx)
		if err != nil && ctx.Err() == nil {
			u.Log.Warn("old code could not be removed", "error", err)
		}
		if pruned != (depot.Pruned{}) {
			u.Log.Info("old code was removed", "snapshots", pruned.Snapshots, "contents", pruned.Contents, "environments", pruned.Environments, "bytes", pruned.Bytes)
		}
		timer.Reset(upkeepEvery)
	}
}

// attributes name, in a volume of a driver, what it holds.
var attributes = map[string]string{v1alpha1.CodeDriver: "snapshot", v1alpha1.EnvironmentDriver: "key"}

// prune removes what no pipeline, no job and no pod names. If these cannot be read nothing is
// removed.
func (u *Upkeep) prune(ctx context.Context) (depot.Pruned, error) {
	named := map[client.ObjectKey]bool{} // namespace and digest
	var jobs v1alpha1.TrainingJobList
	if err := u.Jobs.List(ctx, &jobs); err != nil {
		return depot.Pruned{}, fmt.Errorf("listing the jobs that may need code: %w", err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Spec.Code != nil {
			named[client.ObjectKey{Namespace: job.Namespace, Name: job.Spec.Code.Snapshot}] = true
		}
		named[client.ObjectKey{Namespace: job.Namespace, Name: job.Status.CodeSnapshot}] = true
		named[client.ObjectKey{Namespace: job.Namespace, Name: job.Status.EnvironmentKey}] = true
	}
	if err := u.pipelines(ctx, named); err != nil {
		return depot.Pruned{}, err
	}
	var pods corev1.PodList
	if err := u.Jobs.List(ctx, &pods); err != nil {
		return depot.Pruned{}, fmt.Errorf("listing the pods that may need code: %w", err)
	}
	for i := range pods.Items {
		for _, v := range pods.Items[i].Spec.Volumes {
			if v.CSI != nil {
				named[client.ObjectKey{Namespace: pods.Items[i].Namespace, Name: v.CSI.VolumeAttributes[attributes[v.CSI.Driver]]}] = true
			}
		}
	}
	return u.Code.Prune(ctx, func(namespace, name string) bool {
		return named[client.ObjectKey{Namespace: namespace, Name: name}]
	})
}

// pipelines adds the code of pipelines and of runs, which keep the stages that they
// began with.
func (u *Upkeep) pipelines(ctx context.Context, named map[client.ObjectKey]bool) error {
	var pipelines v1alpha1.PipelineList
	var runs v1alpha1.PipelineRunList
	for _, list := range []client.ObjectList{&pipelines, &runs} {
		if err := u.Jobs.List(ctx, list); err != nil {
			return fmt.Errorf("listing the pipelines that may need code: %w", err)
		}
	}
	add := func(namespace string, code *v1alpha1.Code) {
		if code != nil {
			named[client.ObjectKey{Namespace: namespace, Name: code.Snapshot}] = true
		}
	}
	stages := func(namespace string, all []v1alpha1.Stage) {
		for i := range all {
			add(namespace, all[i].Code)
			if all[i].Training != nil {
				add(namespace, all[i].Training.Code)
			}
		}
	}
	for i := range pipelines.Items {
		add(pipelines.Items[i].Namespace, pipelines.Items[i].Spec.Code)
		stages(pipelines.Items[i].Namespace, pipelines.Items[i].Spec.Stages)
	}
	for i := range runs.Items {
		stages(runs.Items[i].Namespace, runs.Items[i].Spec.Stages)
	}
	return nil
}
