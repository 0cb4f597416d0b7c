// Package answers has the answers of commands for callers at the door, each with the names
// that the caller sees: [door.Answers] and [door.Health].
//
// It must not know how a caller is identified.
package answers

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/doctor"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/plan"
	"github.com/muster-dev/muster/internal/cli/queue/describe"
	"github.com/muster-dev/muster/internal/cli/status"
	"github.com/muster-dev/muster/internal/cli/top"
	"github.com/muster-dev/muster/internal/cli/why"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/visibility"
)

// Options are what answers are made of.
type Options struct {
	// Cache is what the manager keeps in memory, and API is asked anew. Required.
	Cache, API client.Client
	// Logins names users of the machine. Nil on a cluster.
	Logins visibility.Logins
	// Measure measures the GPUs of the machine. Nil: nothing does. It is called for each
	// report and has to be quick.
	Measure top.Sampler
	// State is what this Muster says of itself. Nil: it says nothing.
	State func() instance.State
}

// Answers answers callers at the door. Its methods may be called concurrently.
type Answers struct{ o Options }

var (
	_ door.Answers = Answers{}
	_ door.Health  = Answers{}
)

// New returns answers.
func New(o Options) Answers {
	if o.State == nil {
		o.State = func() instance.State { return instance.State{} }
	}
	return Answers{o}
}

// fresh shows a training job as it is now, and everything else as the manager
// sees it: the caller has just made the job, or changed it.
type fresh struct {
	client.Client
	api client.Client
}

// Get implements [client.Reader].
func (f fresh) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *v1alpha1.Gang, *v1alpha1.Placement, *v1alpha1.Queue:
		return f.Client.Get(ctx, key, o, opts...)
	}
	return f.api.Get(ctx, key, o, opts...)
}

// List implements [client.Reader]. The manager's cache has no index by which the events of a pod
// are listed.
func (f fresh) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, events := list.(*corev1.EventList); events {
		return f.api.List(ctx, list, opts...)
	}
	return f.Client.List(ctx, list, opts...)
}

// Why implements [door.Answers].
func (a Answers) Why(ctx context.Context, rule visibility.Rule, namespace, job string) (any, error) {
	answer, err := why.Seen(ctx, fresh{a.o.Cache, a.o.API}, rule, a.o.Logins, namespace, job)
	return answer, told(err)
}

// Plan implements [door.Answers].
func (a Answers) Plan(ctx context.Context, rule visibility.Rule, user string, job *v1alpha1.TrainingJob) (any, error) {
	answer, err := plan.Seen(ctx, fresh{a.o.Cache, a.o.API}, a.o.API, rule, a.o.Logins, user, job)
	return answer, told(err)
}

// Top implements [door.Answers].
func (a Answers) Top(ctx context.Context, rule visibility.Rule) (any, error) {
	report, err := top.Seen(ctx, a.o.Cache, rule, a.o.Logins, a.o.Measure)
	return report, told(err)
}

// Queues implements [door.Answers].
func (a Answers) Queues(ctx context.Context, rule visibility.Rule) (any, error) {
	documents, err := describe.Seen(ctx, a.o.Cache, rule, a.o.Logins)
	return documents, told(err)
}

// Status implements [door.Health].
func (a Answers) Status(ctx context.Context, rule visibility.Rule) (any, error) {
	report, err := status.Seen(ctx, a.o.Cache, rule, a.o.Logins, a.o.State())
	return report, told(err)
}

// Doctor implements [door.Health].
func (a Answers) Doctor(ctx context.Context, rule visibility.Rule) (any, error) {
	findings, err := doctor.Seen(ctx, a.o.Cache, rule, a.o.Logins, a.o.State().LowRoom)
	return findings, told(err)
}

// told gives a command's error the status that it has at the door.
func told(err error) error {
	var coded *exit.Error
	if !errors.As(err, &coded) {
		return err
	}
	status := http.StatusUnprocessableEntity
	if coded.Code == exit.Missing {
		status = http.StatusNotFound
	}
	return &door.Refusal{Status: status, Text: err.Error()}
}
