package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/startup"
)

// create asks for the job. The server's refusal becomes sentences.
func (o *options) create(ctx context.Context, server client.Client, job *v1alpha1.TrainingJob) error {
	if who, known := person.Authenticated(ctx, server); known {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationSubmitter, who)
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationAuthenticated, "true")
	}
	err := o.submit(ctx, server, job, startup.Within)
	switch {
	case apierrors.IsAlreadyExists(err):
		return o.exists(ctx, server, job)
	case meetsNoKind(err):
		return fmt.Errorf("this server knows no training jobs (%w): is it a Muster? Start one with `muster up`", err)
	case refusal.NoNamespace(err):
		return exit.NotFound("there is no namespace %s: `muster get namespaces` lists those there are", job.Namespace)
	case apierrors.IsServiceUnavailable(err):
		return err
	case err != nil:
		return refusal.Explain("the training job "+job.Name, o.factory.Explain(err))
	}
	return nil
}

func meetsNoKind(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "the server could not find the requested resource")
}

// exists says what bears the name already, and what to do.
func (o *options) exists(ctx context.Context, server client.Client, job *v1alpha1.TrainingJob) error {
	state := ""
	var other v1alpha1.TrainingJob
	if err := server.Get(ctx, client.ObjectKeyFromObject(job), &other); err == nil && other.Status.Phase != "" {
		state = " (" + string(other.Status.Phase) + ")"
	}
	return exit.With(exit.Failure, fmt.Errorf("a training job named %s exists already in namespace %s%s: give another --name, or delete it with `muster delete %s`",
		job.Name, job.Namespace, state, job.Name))
}

// submit asks for the job, and again of a server that has just started. One that
// answers so has stored nothing.
func (o *options) submit(ctx context.Context, server client.Client, job *v1alpha1.TrainingJob, within time.Duration) error {
	return startup.Await(ctx, o.factory.Streams.Err, "jobs", within, func(ctx context.Context) error {
		return server.Create(ctx, job, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}})
	})
}
