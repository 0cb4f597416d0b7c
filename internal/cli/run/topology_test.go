package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestTopologyFlags(t *testing.T) {
	base := Flags{Command: []string{"python", "train.py"}, Workers: pointer(2), PS: pointer(1)}
	for _, tt := range []struct {
		name   string
		edit   func(*Flags)
		want   *v1alpha1.Topology
		spread *v1alpha1.Spread
		err    string
	}{
		{"nothing", func(*Flags) {}, nil, nil, ""},
		{"must be", func(f *Flags) { f.Within = "rack" }, &v1alpha1.Topology{Within: "rack", Required: true}, nil, ""},
		{"had better be", func(f *Flags) { f.Near = "NVLink" }, &v1alpha1.Topology{Within: "nvlink"}, nil, ""},
		{"must be apart", func(f *Flags) { f.Apart = "node" }, nil, &v1alpha1.Spread{Over: "node", Required: true}, ""},
		{"had better be apart", func(f *Flags) { f.Spread, f.Within = "rack", "zone" },
			&v1alpha1.Topology{Within: "zone", Required: true}, &v1alpha1.Spread{Over: "rack"}, ""},
		{"misspelt", func(f *Flags) { f.Spread = "noed" }, nil, nil, "--spread noed: there is zone, rack, nvlink (an NVLink domain) and node; did you mean node?"},
		{"two ways together", func(f *Flags) { f.Within, f.Near = "rack", "rack" }, nil, nil, "--within is for what must be"},
		{"two ways apart", func(f *Flags) { f.Apart, f.Spread = "rack", "node" }, nil, nil, "--apart is for what must be"},
		{"together and apart", func(f *Flags) { f.Within, f.Apart = "node", "node" }, nil, nil, "members in one node cannot each have a node of their own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flags := base
			tt.edit(&flags)
			job, err := Build(flags, inputs())
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, job.Spec.Topology); diff != "" {
				t.Errorf("topology (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.spread, job.Spec.Roles[0].Spread); diff != "" {
				t.Errorf("spread (-want +got):\n%s", diff)
			}
			if job.Spec.Roles[1].Spread != nil {
				t.Errorf("a single ps is spread: %+v", job.Spec.Roles[1].Spread)
			}
		})
	}
}
