package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/instance"
)

// TestImagesThatCannotRun: apply refuses an image that is not mapped and cannot run, before it
// stores anything, and names images: of config.yaml.
func TestImagesThatCannotRun(t *testing.T) {
	files := map[string]string{
		"box.json":   `{"pipeline":{"name":"noimg"},"transform":{"image":"alpine:3","cmd":["true"]},"input":{"pfs":{"repo":"anyset","glob":"/"}}}`,
		"mapped.yml": "metadata: {name: mapped}\nspec: {environment: {image: tf/tf:2}, stages: [{name: s, input: {dataset: d}, command: [x]}]}\n",
		"roles.yml":  "metadata: {name: roles}\nspec: {stages: [{name: s, input: {dataset: d}, training: {roles: [{name: worker, command: [x], template: {spec: {containers: [{name: c, image: \"box:2\"}]}}}]}}]}\n",
	}
	o, dir := reader(t, files)
	home, err := o.factory.Home()
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "kubeconfig"), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "containerd.sock")
	state := instance.State{Tier: "isolated", Images: "none: there is no containerd at " + socket + ": install and start it", Containerd: socket, Mapped: []string{"tf/*"}}
	check := func(file string) error {
		t.Helper()
		if err := instance.Home(home).Write(state); err != nil {
			t.Fatal(err)
		}
		found, err := o.read(t.Context(), filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return o.runnable(found)
	}
	for file, says := range map[string]string{"box.json": `images: {"alpine:3": host}`, "roles.yml": `stage s: this machine cannot run the image "box:2": there is no containerd`} {
		if err := check(file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
	if err := check("mapped.yml"); err != nil {
		t.Errorf("an image that stands for an environment: %v", err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check("box.json"); err != nil {
		t.Errorf("containerd has come since: %v", err)
	}
	state.Images = "none: images can be run by root alone, and this Muster is not"
	if err := check("box.json"); err == nil || !strings.Contains(err.Error(), "by root alone") {
		t.Errorf("without root: %v", err)
	}
	state.Images = "through containerd 2.0 at " + socket
	if err := check("box.json"); err != nil {
		t.Errorf("where images run: %v", err)
	}
}
