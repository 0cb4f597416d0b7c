package serve

import (
	"log/slog"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controller/workshop"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

// Where there is no data, or nobody hands on what workers say, there is nothing that
// could run pipelines, which are refused then.
func TestWhereStagesRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stores, err := warehouse.Open(warehouse.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o      options
		stores *warehouse.Warehouse
		runs   bool
	}{
		"all of it": {options{agents: true, door: ":8443", image: "box:1"}, stores, true},
		"no data":   {options{agents: true, door: ":8443"}, nil, false},
		"no agents": {options{door: ":8443"}, stores, false},
		"no door":   {options{agents: true, door: "0"}, stores, false},
	} {
		made, err := c.o.makeStages(t.Context(), nil, c.stores, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		m := made.pipelines()
		if (m != nil) != c.runs || m != nil && (!m.Elsewhere || m.DefaultImage != c.o.image) {
			t.Errorf("%s: %+v", name, m)
		}
		if shifts := made.shifts(nil); (shifts != nil) != c.runs || shifts != nil && shifts("team") != nil {
			t.Errorf("%s: a replica that does not lead gives out datums", name)
		}
	}
	all := options{agents: true, door: ":8443"}
	made, err := all.makeStages(t.Context(), nil, stores, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if made.builds(nil); made.machine.Environments != nil {
		t.Error("nobody builds environments, and stages are to wait for them")
	}
	if made.builds(workshop.New(workshop.Options{})); made.machine.Environments == nil {
		t.Error("environments are built, and not for stages")
	}
	var none *stages
	none.builds(nil)
	leads := make(chan struct{})
	close(leads)
	for flag, wrong := range map[string]bool{"--stage-arrivals=8Gi": false, "--stage-scratch=0": false, "--stage-arrivals=-1": true, "--stage-scratch=much": true} {
		var d datums
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		d.addFlags(flags)
		if err := flags.Parse([]string{flag}); (err != nil) != wrong {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if made.shifts(leads)("team") == nil {
		t.Errorf("the replica that leads gives out none")
	}
}

func TestNamedImages(t *testing.T) {
	for name, want := range map[string]string{"box:1": "box:1", "r.example.com/box@sha256:abc": "sha256:abc", "box:1@sha256:abc": "sha256:abc"} {
		if got := (named{}).Ensure(name, time.Time{}); got != (pipeline.ImageState{Digest: want}) {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
}
