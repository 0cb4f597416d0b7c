package imagecheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestRefusal: an image that is neither mapped nor can be run is refused, and only while that is so.
func TestRefusal(t *testing.T) {
	home := t.TempDir()
	f := connection.New(terminal.Streams{}, "test")
	f.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	socket := filepath.Join(t.TempDir(), "containerd.sock")
	refusal := func(state *instance.State, images ...string) string {
		t.Helper()
		if state != nil {
			if err := instance.Home(home).Write(*state); err != nil {
				t.Fatal(err)
			}
		}
		return Of(f).Refusal(images)
	}
	if why := refusal(nil, "box:2"); why != "" {
		t.Errorf("where no Muster runs: %s", why)
	}
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := &instance.State{Images: "none: there is no containerd at " + socket, Containerd: socket, Mapped: []string{"tf/*"}}
	if why := refusal(none, "tf/tf:2", configuration.HostImage); why != "" {
		t.Errorf("mapped images: %s", why)
	}
	for _, part := range []string{`the image "box:2": there is no containerd at ` + socket, `images: {"box:2": host}`} {
		if why := refusal(none, "tf/tf:2", "box:2"); !strings.Contains(why, part) {
			t.Errorf("%q lacks %q", why, part)
		}
	}
	if why := refusal(&instance.State{Images: "through containerd 2.0 at " + socket}, "box:2"); why != "" {
		t.Errorf("where images run: %s", why)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if why := refusal(none, "box:2"); why != "" {
		t.Errorf("after containerd has started: %s", why)
	}
	if err := os.WriteFile(filepath.Join(home, "status.json"), []byte(`{"images":"none: x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := refusal(nil, "box:2"); why != "" {
		t.Errorf("after Muster has ended: %s", why)
	}
}

func TestNamed(t *testing.T) {
	const pod = "spec: {initContainers: [{image: i:1}], containers: [{image: c:1}, {name: none}]}"
	for name, c := range map[string]struct {
		object string
		want   []string
	}{
		"a pod":               {"{apiVersion: v1, kind: Pod, " + pod + "}", []string{"c:1", "i:1"}},
		"a Deployment":        {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {" + pod + "}}}", []string{"c:1", "i:1"}},
		"a CronJob":           {"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {" + pod + "}}}}}", []string{"c:1", "i:1"}},
		"a TFJob":             {"{apiVersion: kubeflow.org/v1, kind: TFJob, spec: {tfReplicaSpecs: {Worker: {template: {" + pod + "}}}}}", []string{"c:1", "i:1"}},
		"a training job":      {"{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, spec: {environment: {image: e:1}, roles: [{name: w, template: {" + pod + "}}]}}", []string{"e:1", "c:1", "i:1"}},
		"a ConfigMap":         {"{apiVersion: v1, kind: ConfigMap, " + pod + "}", nil},
		"another system's":    {"{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, " + pod + "}", nil},
		"fields of any shape": {"{apiVersion: v1, kind: Pod, spec: {containers: {image: c:1}, environment: text, initContainers: [text, {image: 1}]}}", nil},
		"no spec":             {"{apiVersion: v1, kind: Pod, spec: text}", nil},
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &object.Object); err != nil {
			t.Fatal(err)
		}
		if got := Named(object); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
