// Package outfitter has the Python environments of one machine made: those for the
// machine's own Python by the builder, and those for the Python of an image by the
// workshop, in a pod that writes to a bench of the builder's.
//
// It must not know how either makes them.
package outfitter

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controller/workshop"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/bundle"
)

// Outfitter has environments made for jobs and stages, whoever asks.
type Outfitter struct {
	builder *environment.Builder
	images  pipeline.Images
	shop    *workshop.Workshop
	news    chan string
}

// New returns an outfitter, which hands on news once it runs. Images says what images
// are, and has them brought here.
func New(builder *environment.Builder, images pipeline.Images) *Outfitter {
	o := &Outfitter{builder: builder, images: images, news: make(chan string)}
	o.shop = workshop.New(workshop.Options{Store: built{builder}, NotStored: environment.ErrNotBuilt, Look: o.look, Variables: variables(os.Getenv)})
	return o
}

// built are the environments in images that are on this machine.
type built struct{ builder *environment.Builder }

// Environment implements [workshop.Store]. Keys keep namespaces apart.
func (b built) Environment(_ context.Context, _, key string) (bundle.Packed, error) {
	note, err := b.builder.Built(key)
	return bundle.Packed{Note: note}, err
}

// look says what an image is, in the workshop's words.
func (o *Outfitter) look(name string) workshop.Image {
	if err := o.images.Check(name); err != nil {
		return workshop.Image{Failed: true, Message: "no packages are put on top of the image " + name + " on this machine: " + err.Error() + "; give requirements without it"}
	}
	is := o.images.Ensure(name, time.Time{})
	if is.Host {
		return workshop.Image{Failed: true, Message: "the image " + name + " stands for this machine's own programs, on top of which no packages are put; give requirements without it"}
	}
	return workshop.Image{Digest: is.Digest, Failed: is.Failed, Message: is.Message}
}

// names are the variables by which this machine's own installs are told where packages
// are, and how they are reached.
var names = []string{
	"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// variables returns those of names that are set, without users and passwords: every reader of
// a build's pod could see them. Builds get passwords from environment.indexSecret.
func variables(get func(string) string) (out []corev1.EnvVar) {
	for _, name := range names {
		if value := get(name); value != "" {
			out = append(out, corev1.EnvVar{Name: name, Value: environment.WithoutPasswords(value)})
		}
	}
	return out
}

// Ensure answers how the environment of a job stands.
func (o *Outfitter) Ensure(job *v1alpha1.TrainingJob, r environment.Request) environment.State {
	if r.Image == "" {
		return o.builder.Ensure(r)
	}
	return o.shop.Ensure(job, r)
}

// EnsureFor is the same for a stage of a run, whose members have these roles, if it says
// any.
func (o *Outfitter) EnsureFor(run *v1alpha1.PipelineRun, roles []v1alpha1.Role, r environment.Request) environment.State {
	if r.Image == "" {
		return o.builder.Ensure(r)
	}
	return o.shop.EnsureFor(run, roles, r)
}

// Changes tells when Ensure may have a new answer.
func (o *Outfitter) Changes() <-chan string { return o.news }

// SetupWithManager has builds in pods be watched.
func (o *Outfitter) SetupWithManager(mgr ctrl.Manager) error { return o.shop.SetupWithManager(mgr) }

// Run hands on what the builder and the workshop tell, until ctx ends.
func (o *Outfitter) Run(ctx context.Context) error {
	for {
		var name string
		select {
		case <-ctx.Done():
			return nil
		case name = <-o.builder.Changes():
		case name = <-o.shop.Changes():
		}
		select {
		case <-ctx.Done():
			return nil
		case o.news <- name:
		}
	}
}
