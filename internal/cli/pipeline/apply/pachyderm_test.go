package apply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/internal/pachyderm"
)

const specifications = `{
  "pipeline": {"name": "edges"},
  "transform": {"image": "edges:1", "cmd": ["python3", "/edges.py"], "debug": true},
  "input": {"pfs": {"repo": "images", "glob": "/*"}}
}
{
  "pipeline": {"name": "montage"},
  "transform": {"image": "montage:1", "cmd": ["sh"], "stdin": ["montage /pfs/edges/* /pfs/out/all.png"]},
  "input": {"pfs": {"repo": "edges", "glob": "/"}}
}`

func TestPachydermsSpecificationsBecomePipelines(t *testing.T) {
	found, notes, err := convert([]byte(specifications), pachyderm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range found {
		names = append(names, object.GetKind()+" "+object.GetName())
		if _, there := object.Object["status"]; there {
			t.Errorf("%s has a status", object.GetName())
		}
	}
	if diff := cmp.Diff([]string{"Pipeline edges", "Pipeline montage"}, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if len(notes) != 1 || !strings.HasPrefix(notes[0].String(), "edges: transform.debug: ") {
		t.Errorf("notes: %v", notes)
	}
	text, err := yaml.Marshal(found[1].Object)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "dataset: edges") {
		t.Errorf("montage does not read edges:\n%s", text)
	}
}

func TestPachydermsSpecificationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, unmountable, want string }{
		"in the plain tier":  {specifications, "this Muster is in the plain tier", "montage: transform: its program looks for files below /pfs"},
		"by their fields":    {strings.Replace(specifications, `"debug"`, `"user"`, 1), "", "edges: transform.user: "},
		"for a typing error": {strings.Replace(specifications, `"debug"`, `"workng_dir"`, 1), "", "did you mean working_dir?"},
		"for their glob":     {strings.Replace(specifications, `"/*"`, `"/["`, 1), "", "pipeline edges: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := convert([]byte(c.text), pachyderm.Options{Unmountable: c.unmountable})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
