package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/pipeline"
)

const (
	// SecretsRole is the ClusterRole that a namespace gives to the manager for the
	// Secrets and ConfigMaps that its pipelines name.
	SecretsRole = "muster-pipelines-secrets"
	// managerAccount is the service account of the manager.
	managerAccount = "muster-manager"
	// askingRights is when it is looked again whether a right was given.
	askingRights = 5 * time.Second
)

// forbidden says in words how a namespace gives the manager a right that it lacks.
func forbidden(namespace, kind, name string) *notYet {
	return &notYet{again: askingRights, message: fmt.Sprintf(
		"the manager has no right to read %s %s of this namespace: have somebody who gives rights in it run `kubectl -n %s create rolebinding %s --clusterrole=%[4]s --serviceaccount=%s:%s`",
		kind, name, namespace, SecretsRole, v1alpha1.SystemNamespace, managerAccount)}
}

// counted are the versions by which the variables of a stage count; nil where none of
// them comes from elsewhere. Those of members
// that train together are the ones with which they began, for as long as their job is
// there: somebody else may give out their files by now.
func (c *Runs) counted(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage) (map[string]string, error) {
	if len(pipeline.References(stage)) == 0 {
		return nil, nil
	}
	if c.deps.Machine.carries() && stage.Whole() && !run.Spec.DryRun {
		job, err := c.ownJob(ctx, run, stage)
		if err != nil {
			return nil, err
		}
		if began, ok := versionsOf(job); ok {
			maps.DeleteFunc(began, func(name, _ string) bool { return strings.HasPrefix(name, imageTerm) })
			return began, nil
		}
	}
	return c.versions(ctx, run.Namespace, stage)
}

// ownJob is the job of a stage as it is now, nil where there is none that stays.
func (c *Runs) ownJob(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage) (*v1alpha1.TrainingJob, error) {
	job := &v1alpha1.TrainingJob{}
	name := jobName(run, stage.Name)
	err := c.live.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, job)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading job %s: %w", name, err)
	}
	if !job.DeletionTimestamp.IsZero() || !metav1.IsControlledBy(job, run) {
		return nil, nil
	}
	return job, nil
}

// versions are those that there are now of the Secrets and ConfigMaps that variables
// come from. What is not there has none, which the recipe says.
func (c *Runs) versions(ctx context.Context, namespace string, stage *pipeline.Stage) (map[string]string, error) {
	out := map[string]string{}
	for _, ref := range pipeline.References(stage) {
		// What is in it is nobody's business here.
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: ref.Kind})
		err := c.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
		switch {
		case err == nil:
			version, err := versionOf(ref.Kind, object)
			if err != nil {
				return nil, err
			}
			out[pipeline.VersionOf(ref.Kind, ref.Name)] = version
		case apierrors.IsForbidden(err):
			return nil, forbidden(namespace, ref.Kind, ref.Name)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading which version %s %s has, which variable %s comes from: %w", ref.Kind, ref.Name, ref.Variable, err)
		}
	}
	return out, nil
}

// longestDeclared is how long a name may be by which values count.
const longestDeclared = 128

// versionOf is the version of a Secret or ConfigMap: as the API server counts, or by the
// name that it declares.
func versionOf(kind string, object *metav1.PartialObjectMetadata) (string, error) {
	name, is := object.Annotations[v1alpha1.AnnotationCountsAs]
	if !is {
		return string(object.UID) + "/" + object.ResourceVersion, nil
	}
	if name == "" || len(name) > longestDeclared || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", &unfit{fmt.Sprintf("%s %s: annotation %s is %.40q: give the name by which its values count, 1 to %d printable characters, or take it off: then its version counts",
			kind, object.Name, v1alpha1.AnnotationCountsAs, name, longestDeclared)}
	}
	return pipeline.DeclaredVersion(name), nil
}

// noteVersions has a job say by which versions its members compute.
func noteVersions(job *v1alpha1.TrainingJob, versions map[string]string) error {
	if versions == nil {
		return nil
	}
	text, err := json.Marshal(versions)
	if err != nil {
		return fmt.Errorf("noting the versions of what variables come from: %w", err)
	}
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations[v1alpha1.AnnotationVersions] = string(text)
	return nil
}

// versionsOf are those that a job says.
func versionsOf(job *v1alpha1.TrainingJob) (versions map[string]string, ok bool) {
	if job == nil {
		return nil, false
	}
	text := job.Annotations[v1alpha1.AnnotationVersions]
	return versions, text != "" && json.Unmarshal([]byte(text), &versions) == nil
}

// current says that the members of a job have the values by which the stage was
// planned.
func current(job *v1alpha1.TrainingJob, versions map[string]string) bool {
	have, ok := versionsOf(job)
	return ok == (versions != nil) && maps.Equal(have, versions)
}

// jobTag tells the workers of a stage, as the door introduces them, from those of a job
// before, which have other values; empty: nothing does, and any are heard.
func jobTag(versions map[string]string) string {
	if versions == nil {
		return ""
	}
	text, err := json.Marshal(versions) // in the order of names
	if err != nil {
		return ""
	}
	return digest.Of(text).String()
}

// dismissFormer ends a job of the stage whose members have other values, or run another
// image, than those by which it is planned now: what this process's predecessor began.
func (c *Runs) dismissFormer(ctx context.Context, s *step, w *resolved) error {
	if w.terms == nil {
		return nil
	}
	job, err := c.ownJob(ctx, s.run, s.stage)
	if err != nil || job == nil || current(job, w.terms) {
		return err
	}
	return c.dismissAll(ctx, s)
}

// dismissAll ends a stage's work and its job, so that nobody is heard any more who
// computes there. The work goes first: killed in between, the job is still there to be
// found. A job that has ended goes, too: its members may have ended because the work was over,
// and the next job has the same name.
func (c *Runs) dismissAll(ctx context.Context, s *step) error {
	if err := c.deps.Machine.Foreman.Close(workName(s.run, s.stage.Name)); err != nil {
		return err
	}
	c.desk.leave(workName(s.run, s.stage.Name))
	job, err := c.ownJob(ctx, s.run, s.stage)
	if err != nil || job == nil {
		return err
	}
	if err := client.IgnoreNotFound(c.client.Delete(ctx, job, client.Preconditions{UID: &job.UID})); err != nil {
		return fmt.Errorf("deleting job %s: %w", job.Name, err)
	}
	return nil
}

// admit looks whether a worker that has just begun, or a member, has the values by which
// the stage was planned: it does if they are still the ones that there are, since it
// has begun before now and after the stage was planned.
func (c *Runs) admit(w *work, name string) func(context.Context) error {
	if w.resolved.versions == nil {
		return nil
	}
	return func(ctx context.Context) error {
		now, err := c.versions(ctx, w.namespace, w.stage)
		// What cannot count any more is said by who plans again.
		if _, wrong := errors.AsType[*unfit](err); err != nil && !wrong {
			return err
		}
		if err == nil && maps.Equal(now, w.resolved.versions) {
			return nil
		}
		w.mu.Lock()
		w.outdated = true
		w.mu.Unlock()
		c.desk.board.Post(name)
		return foreman.ErrOutdated
	}
}

// isOutdated says that a worker has come that may have other values than those by which
// the stage was planned.
func (w *work) isOutdated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outdated
}

// renew plans a stage again, for other workers.
func (c *Runs) renew(ctx context.Context, s *step) (time.Duration, error) {
	if err := c.dismissAll(ctx, s); err != nil {
		return 0, err
	}
	c.mu.Lock()
	delete(s.active.works, s.stage.Name)
	c.mu.Unlock()
	s.status.Phase, s.status.Message = v1alpha1.RunPlanning, "a Secret or ConfigMap that its variables come from has changed: it is planned again, for other workers"
	return preparing, nil
}

// replace ends a job that computes by other values than the stage's plan.
func (c *Runs) replace(ctx context.Context, job *v1alpha1.TrainingJob) (time.Duration, error) {
	err := client.IgnoreNotFound(c.client.Delete(ctx, job, client.Preconditions{UID: &job.UID}))
	if err != nil && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("deleting job %s: %w", job.Name, err)
	}
	return preparing, nil
}

// soon is what a [notYet] says, and when it is looked again.
func soon(err error) (message string, again time.Duration, ok bool) {
	wait, ok := errors.AsType[*notYet](err)
	if !ok {
		return "", 0, false
	}
	if wait.again == 0 {
		return wait.message, preparing, true
	}
	return wait.message, wait.again, true
}
