package stores

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// movedFrom is the annotation of a Dataset that an upgrade made: the UID of the one before.
const movedFrom = "muster.dev/moved-from"

// MoveObjects moves the Datasets of all namespaces to the namespace of the owner whose
// [Upgrade] is pending: that has their data now. API reads past any cache. The namespace must
// exist. After an interruption, call it again. While other objects need that data where they
// are, it returns a sentence about them, and the upgrade stays pending: no data is collected.
func MoveObjects(ctx context.Context, api client.Client, home string) error {
	namespace, err := Pending(home)
	if err != nil || namespace == "" {
		return err
	}
	var all v1alpha1.DatasetList
	if err := api.List(ctx, &all); err != nil {
		return fmt.Errorf("listing the datasets: %w", err)
	}
	for i := range all.Items {
		if was := &all.Items[i]; was.Namespace != namespace {
			if err := moveDataset(ctx, api, was, namespace); err != nil {
				return fmt.Errorf("moving dataset %s/%s to namespace %s: %w", was.Namespace, was.Name, namespace, err)
			}
		}
	}
	left, err := leftBehind(ctx, api, namespace)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s are in other namespaces than %s, which has their data now: create them there, and delete them here; until then no data of that namespace is collected",
			strings.Join(left, ", "), namespace)
	}
	return record{namespace, done}.write(home)
}

// moveDataset makes the Dataset in the other namespace, and only then deletes it here.
func moveDataset(ctx context.Context, api client.Client, was *v1alpha1.Dataset, namespace string) error {
	made := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: was.Name, Labels: was.Labels, Annotations: map[string]string{movedFrom: string(was.UID)}}, Spec: was.Spec}
	for name, value := range was.Annotations {
		made.Annotations[name] = value
	}
	made.Annotations[movedFrom] = string(was.UID)
	for _, name := range []string{was.Name, was.Name + "-" + was.Namespace} {
		made.Name, made.ResourceVersion, made.UID = name, "", ""
		err := api.Create(ctx, made.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			there := &v1alpha1.Dataset{}
			if err := api.Get(ctx, client.ObjectKeyFromObject(made), there); err != nil {
				return err
			}
			if there.Annotations[movedFrom] != string(was.UID) {
				continue // another one of that name
			}
			err = nil
		}
		if err != nil {
			return err
		}
		return client.IgnoreNotFound(api.Delete(ctx, was, client.Preconditions{UID: &was.UID}))
	}
	return fmt.Errorf("there are datasets %s and %s-%s already: rename one", was.Name, was.Name, was.Namespace)
}

// leftBehind names the objects elsewhere that need data of the namespace: jobs that read some
// and have not finished, and pipelines.
func leftBehind(ctx context.Context, api client.Client, namespace string) (left []string, err error) {
	var jobs v1alpha1.TrainingJobList
	if err := api.List(ctx, &jobs); err != nil {
		return nil, fmt.Errorf("listing the jobs: %w", err)
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		ended := j.Status.Phase == v1alpha1.JobSucceeded || j.Status.Phase == v1alpha1.JobFailed
		if j.Namespace != namespace && !ended && len(j.Spec.Data) > 0 {
			left = append(left, "job "+j.Namespace+"/"+j.Name)
		}
	}
	var pipelines v1alpha1.PipelineList
	if err := api.List(ctx, &pipelines); err != nil {
		return nil, fmt.Errorf("listing the pipelines: %w", err)
	}
	for i := range pipelines.Items {
		if p := &pipelines.Items[i]; p.Namespace != namespace {
			left = append(left, "pipeline "+p.Namespace+"/"+p.Name)
		}
	}
	return left, nil
}
