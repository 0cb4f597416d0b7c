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
)

const (
	// startsWithin is for how long a server is waited for that answers and takes no
	// jobs yet: one that has just started, or to which Muster was just added, answers
	// before its policies know the kind.
	startsWithin = 30 * time.Second
	startsLook   = 500 * time.Millisecond
)

// create asks for the job. The server's refusal becomes sentences.
func (o *options) create(ctx context.Context, server client.Client, job *v1alpha1.TrainingJob) error {
	if who, known := person.Authenticated(ctx, server); known {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationSubmitter, who)
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationAuthenticated, "true")
	}
	err := o.submit(ctx, server, job, startsWithin)
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
	last := time.NewTimer(within)
	defer last.Stop()
	tick := time.NewTicker(startsLook)
	defer tick.Stop()
	for told := false; ; told = true {
		err := server.Create(ctx, job, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}})
		if !apierrors.IsServiceUnavailable(err) {
			return err
		}
		if !told {
			_, _ = fmt.Fprintln(o.factory.Streams.Err, "The server has just started and takes no jobs yet; waiting for it")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-last.C:
			return fmt.Errorf("the server answers, and has taken no jobs for %s: an administrator finds out why with `muster doctor` and in the API server's log; submit the job again then (%w)", within, err)
		case <-tick.C:
		}
	}
}
