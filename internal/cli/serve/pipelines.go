package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controller/workshop"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/imagetag"
)

// stages is what runs of pipelines need; nil: there is no store of data, or nobody
// by whom workers could be heard.
type stages struct {
	foreman *foreman.Foreman
	machine *pipeline.Machine
	// resolver asks what tags of images name; nil: nobody does.
	resolver *imagetag.Resolver
}

// keepResults is how long after its last use a result of a pipeline stays that no
// output has, as on one machine where config.yaml says nothing.
const keepResults = 720 * time.Hour

// datums say how much of what stages compute is on disks on its way.
type datums struct {
	arrivals, scratch size
}

// size is a flag's value, such as 8Gi.
type size struct{ resource.Quantity }

// Set implements [pflag.Value].
func (s *size) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return errors.New("give a size, such as 8Gi, or 0 for no bound")
	}
	s.Quantity = q
	return nil
}

// Type implements [pflag.Value].
func (*size) Type() string { return "size" }

func (d *datums) addFlags(flags *pflag.FlagSet) {
	d.arrivals.Quantity, d.scratch.Quantity = resource.MustParse("8Gi"), resource.MustParse("200Gi")
	flags.Var(&d.arrivals, "stage-arrivals", "how much of what stages of pipelines have computed may be on this replica's disk and not kept yet; half of it is how much one namespace, and one datum, may have. 0: no bound")
	flags.Var(&d.scratch, "stage-scratch", "how much the files of datums that a worker of a stage has may be; a pod with more is evicted. 0: no bound")
}

// makeStages makes it. Nothing is done until this replica leads.
func (o *options) makeStages(ctx context.Context, config *rest.Config, stores *warehouse.Warehouse, library *depot.Sources, log *slog.Logger) (*stages, error) {
	if stores == nil || !o.agents || o.door == "0" {
		return nil, nil //nolint:nilnil // none is no error
	}
	f, err := foreman.New(foreman.Options{Dir: filepath.Join(os.TempDir(), "muster-pipelines"), Log: log, Arrivals: o.datums.arrivals.Value()})
	if err != nil {
		return nil, err
	}
	guard := o.copies.guard(ctx, config)
	resolver := o.tags.resolver(guard)
	m := &pipeline.Machine{
		Store: stores.Bounded, Foreman: f, Sources: noSources{}, Images: images(resolver), Elsewhere: true, DefaultImage: o.image,
		Interpreter: func(context.Context) (string, error) { return "", errors.New("stages run in images") },
		KeepResults: keepResults, Scratch: o.datums.scratch.Quantity, Egress: o.copies.rules(guard),
	}
	if library != nil {
		m.Sources = library
	}
	return &stages{foreman: f, machine: m, resolver: resolver}, nil
}

// builds has the packages of stages be installed by a workshop; nil: there is none.
func (s *stages) builds(w *workshop.Workshop) {
	if s != nil && w != nil {
		s.machine.Environments = w
	}
}

// pipelines is what the controllers of pipelines work with.
func (s *stages) pipelines() *pipeline.Machine {
	if s == nil {
		return nil
	}
	return s.machine
}

// add has the replica that leads give datums out. What is left on its disk of
// another time is swept by the controller.
func (s *stages) add(m upstream.Manager) error {
	if s == nil {
		return nil
	}
	if err := m.Add(upstream.RunnableFunc(s.foreman.Run)); err != nil {
		return fmt.Errorf("adding the foreman of pipelines: %w", err)
	}
	if s.resolver == nil {
		return nil
	}
	if err := m.Add(upstream.RunnableFunc(s.resolver.Run)); err != nil {
		return fmt.Errorf("adding who asks what tags of images name: %w", err)
	}
	return nil
}

// shifts answers workers of a namespace, where this replica leads.
func (s *stages) shifts(elected <-chan struct{}) func(string) http.Handler {
	if s == nil {
		return nil
	}
	return func(namespace string) http.Handler {
		select {
		case <-elected:
			return s.foreman.HandlerFor(namespace)
		default:
			return nil
		}
	}
}

// named knows images by their names alone: what is in one counts where the name
// says it, by a digest, and else the name does.
type named struct{}

// Check implements [pipeline.Images].
func (named) Check(string) error { return nil }

// Ensure implements [pipeline.Images].
func (named) Ensure(name string, _ time.Time) pipeline.ImageState {
	if _, digest, ok := strings.Cut(name, "@"); ok {
		return pipeline.ImageState{Digest: digest}
	}
	return pipeline.ImageState{Digest: name}
}

// noSources is a cluster without a store for code.
type noSources struct{}

const noSource = "code is kept nowhere on this cluster: install it with a store (muster install --set store.persistentVolumeClaim=NAME, or store.s3), or have the code in the image"

// Ensure implements [pipeline.Sources].
func (noSources) Ensure(string, string) source.State {
	return source.State{Phase: source.Failed, Message: noSource}
}

// Has implements [pipeline.Sources].
func (noSources) Has(string, string) (bool, error) { return false, errors.New(noSource) }

// Contains implements [pipeline.Sources].
func (noSources) Contains(string, string, string) (bool, error) { return false, errors.New(noSource) }

// Files implements [pipeline.Sources].
func (noSources) Files(string, string) (map[string]string, error) { return nil, errors.New(noSource) }
