package outfitter

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/environment"
)

// images are what is known of them by their names; of others there is no saying.
type images struct {
	known map[string]pipeline.ImageState
	none  error
	asked []string
}

func (i *images) Check(string) error { return i.none }

func (i *images) Ensure(name string, _ time.Time) pipeline.ImageState {
	i.asked = append(i.asked, name)
	return i.known[name]
}

func newOutfitter(t *testing.T, i *images) *Outfitter {
	t.Helper()
	b, err := environment.New(environment.Options{Dir: filepath.Join(t.TempDir(), "environments")})
	if err != nil {
		t.Fatal(err)
	}
	return New(b, i)
}

// TestWhoIsAsked: the builder where no image is named, else the workshop, which looks at
// the image first.
func TestWhoIsAsked(t *testing.T) {
	none := errors.New("images can be run by root alone")
	for name, c := range map[string]struct {
		request environment.Request
		none    error
		phase   environment.Phase
		says    string
		asked   []string // which images were looked at
	}{
		"the machine's Python":         {environment.Request{Requirements: "numpy"}, nil, environment.Building, "waiting to be looked at", nil},
		"a folder, without any images": {environment.Request{Path: "/env"}, none, environment.Building, "waiting to be looked at", nil},
		"an image":                     {environment.Request{Requirements: "numpy", Image: "box:1"}, nil, environment.Building, "box:1 is being fetched", []string{"box:1"}},
		"no image at all":              {environment.Request{Requirements: "numpy", Image: "windows/1"}, nil, environment.Failed, "no name", []string{"windows/1"}},
		"one that is the machine": {environment.Request{Requirements: "numpy", Image: "tf:2"}, nil, environment.Failed,
			"the image tf:2 stands for this machine's own programs, on top of which no packages are put; give requirements without it", []string{"tf:2"}},
		"images cannot be run": {environment.Request{Requirements: "numpy", Image: "box:1"}, none, environment.Failed,
			"no packages are put on top of the image box:1 on this machine: images can be run by root alone; give requirements without it", nil},
	} {
		t.Run(name, func(t *testing.T) {
			i := &images{none: c.none, known: map[string]pipeline.ImageState{
				"box:1": {Message: "box:1 is being fetched"}, "windows/1": {Failed: true, Message: "no name"}, "tf:2": {Host: true, Path: "/opt/tf"},
			}}
			o := newOutfitter(t, i)
			for who, state := range map[string]environment.State{
				"a job":   o.Ensure(&v1alpha1.TrainingJob{}, c.request),
				"a stage": o.EnsureFor(&v1alpha1.PipelineRun{}, nil, c.request),
			} {
				if state.Phase != c.phase || !strings.Contains(state.Message, c.says) {
					t.Errorf("%s is told %+v, want %s: %q", who, state, c.phase, c.says)
				}
			}
			if want := slices.Concat(c.asked, c.asked); !slices.Equal(i.asked, want) {
				t.Errorf("looked at %v, want %v", i.asked, want)
			}
		})
	}
}

// TestNotBuilt: what the builder does not have the workshop may begin.
func TestNotBuilt(t *testing.T) {
	o := newOutfitter(t, &images{})
	if _, err := (built{o.builder}).Environment(t.Context(), "vision", strings.Repeat("ab", 32)); !errors.Is(err, environment.ErrNotBuilt) {
		t.Errorf("%v", err)
	}
}

// TestNews of the builder are handed on.
func TestNews(t *testing.T) {
	o := newOutfitter(t, &images{})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for _, run := range []func(context.Context) error{o.Run, o.builder.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	o.Ensure(&v1alpha1.TrainingJob{}, environment.Request{Path: "no/whole/path"})
	<-o.Changes()
	state := o.Ensure(&v1alpha1.TrainingJob{}, environment.Request{Path: "no/whole/path"})
	if state.Phase != environment.Failed || !strings.Contains(state.Message, "must begin with /") {
		t.Errorf("after the news: %+v", state)
	}
}

func TestVariables(t *testing.T) {
	set := map[string]string{"HTTPS_PROXY": "http://proxy:1", "PIP_INDEX_URL": "http://ada:geheim@index/simple", "HOME": "/root", "NO_PROXY": ""}
	want := []corev1.EnvVar{{Name: "PIP_INDEX_URL", Value: "http://index/simple"}, {Name: "HTTPS_PROXY", Value: "http://proxy:1"}}
	if diff := cmp.Diff(want, variables(func(name string) string { return set[name] })); diff != "" {
		t.Error(diff)
	}
}
