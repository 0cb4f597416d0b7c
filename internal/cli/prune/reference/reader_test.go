package reference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/muster-dev/muster/api/configuration"
)

// hash makes one of a number.
func hash(n int) string { return fmt.Sprintf("%064x", n) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// object is one of a kind, with these fields.
func object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	o.SetNamespace("default")
	return o
}

// volume is a pod's spec with an ephemeral CSI volume.
func volume(driver, attribute, value string) map[string]any {
	return map[string]any{"volumes": []any{map[string]any{"name": "v", "csi": map[string]any{"driver": driver, "volumeAttributes": map[string]any{attribute: value}}}}}
}

func server(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		kinds[0]: "PipelineList", kinds[1]: "PipelineRunList", kinds[2]: "TrainingJobList", kinds[3]: "GangList", kinds[4]: "PodList",
	}, objects...)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func link(t *testing.T, target, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.Symlink(target, path))
}

func TestRead(t *testing.T) {
	const muster = "muster.dev/v1alpha1"
	home := t.TempDir()
	environments := filepath.Join(home, "environments")
	objects := []runtime.Object{
		object(muster, "TrainingJob", "spec", map[string]any{"spec": map[string]any{"code": map[string]any{"snapshot": "sha256:" + hash(1)}}}),
		object(muster, "TrainingJob", "status", map[string]any{"status": map[string]any{"codeSnapshot": "sha256:" + hash(2), "environmentKey": hash(3)}}),
		object(muster, "TrainingJob", "path", map[string]any{"spec": map[string]any{"environment": map[string]any{"path": filepath.Join(environments, hash(4), "venv")}}}),
		object(muster, "Gang", "gang", map[string]any{"spec": map[string]any{"roles": []any{map[string]any{"template": map[string]any{"spec": volume("code.muster.dev", "snapshot", "sha256:"+hash(5))}}}}}),
		object("v1", "Pod", "code", map[string]any{"spec": volume("code.muster.dev", "snapshot", "sha256:"+hash(6))}),
		object("v1", "Pod", "environment", map[string]any{"spec": volume("environment.muster.dev", "key", hash(7))}),
	}
	write(t, filepath.Join(home, "jobs", "uid", "code", "sha256-"+hash(8), "train.py"), "")
	write(t, filepath.Join(home, "pods", "quarantined", "containers", "main", "0", "spec.json"), `{"env":["PATH=`+environments+"/"+hash(9)+`/venv/bin:/bin"]}`)
	link(t, filepath.Join(environments, hash(10), "venv"), filepath.Join(home, "pods", "plain", "root", "deep", "env"))
	write(t, filepath.Join(home, "pods", "starting", "pod.json"), "{}")
	must(t, os.MkdirAll(filepath.Join(home, "pods", "starting", "containers", "main", "0"), 0o755))

	reader := Reader{Server: server(objects...), Home: home, Images: configuration.Images{"tf/*": {Environment: filepath.Join(environments, hash(11), "venv")}, "a": {Environment: "host"}}}
	found, err := reader.Read(t.Context())
	must(t, err)
	for n := 1; n <= 11; n++ {
		if !found.Has(hash(n)) {
			t.Errorf("reference %d is not among them", n)
		}
	}
	if found.Len() != 11 {
		t.Errorf("%d references", found.Len())
	}
}

func TestReadOfAnEmptyFolder(t *testing.T) {
	found, err := Reader{Server: server(), Home: filepath.Join(t.TempDir(), "none")}.Read(t.Context())
	if err != nil || found.Len() != 0 {
		t.Errorf("%d references, %v", found.Len(), err)
	}
}

// TestWhatCannotBeReadIsAnError: whoever removes things by this list would
// remove too much.
func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.Resource, func(t *testing.T) {
			away := server()
			away.PrependReactor("list", kind.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("the server is away")
			})
			if _, err := (Reader{Server: away, Home: t.TempDir()}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "listing the "+kind.Resource) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a container that runs nobody knows what", func(t *testing.T) {
		home := t.TempDir()
		write(t, filepath.Join(home, "pods", "uid", "containers", "main", "0", "shim.json"), "{}")
		if _, err := (Reader{Server: server(), Home: home}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "has no spec.json") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file where a folder is to be", func(t *testing.T) {
		home := t.TempDir()
		write(t, filepath.Join(home, "pods"), "")
		if _, err := (Reader{Server: server(), Home: home}).Read(t.Context()); err == nil {
			t.Error("no error")
		}
	})
	t.Run("the time is over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		away := server()
		away.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, ctx.Err() })
		if _, err := (Reader{Server: away, Home: t.TempDir()}).Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestReadAllPages asks on until there is nothing left.
func TestReadAllPages(t *testing.T) {
	again := false
	paged := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": []any{}}
		if strings.HasSuffix(r.URL.Path, "/pods") {
			n := 1
			switch {
			case r.URL.Query().Get("limit") == "":
				http.Error(w, "no limit", http.StatusBadRequest)
				return
			case r.URL.Query().Get("continue") == "" || again:
				page["metadata"] = map[string]any{"continue": "more"}
			default:
				n = 2
			}
			page["items"] = []any{object("v1", "Pod", "a", map[string]any{"spec": volume("environment.muster.dev", "key", hash(n))}).Object}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer paged.Close()
	client, err := dynamic.NewForConfig(&rest.Config{Host: paged.URL})
	must(t, err)
	found, err := Reader{Server: client, Home: t.TempDir()}.Read(t.Context())
	must(t, err)
	if !found.Has(hash(1)) || !found.Has(hash(2)) {
		t.Error("a page is missing")
	}
	again = true
	if _, err := (Reader{Server: client, Home: t.TempDir()}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "the same page again") {
		t.Errorf("got %v", err)
	}
}

// TestReadEach: an object keeps things of its own namespace; what this machine runs keeps them
// of all.
func TestReadEach(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "jobs", "uid", "code", "sha256:"+hash(3), "train.py"), "")
	job := object("muster.dev/v1alpha1", "TrainingJob", "a", map[string]any{"status": map[string]any{"codeSnapshot": "sha256:" + hash(1)}})
	job.SetNamespace("u-1000")
	other := object("v1", "Pod", "b", volume("code.muster.dev", "snapshot", "sha256:"+hash(2)))
	other.SetNamespace("u-1001")
	each, err := Reader{Server: server(job, other), Home: home}.ReadEach(t.Context())
	must(t, err)
	for _, c := range []struct {
		namespace string
		thing     int
		want      bool
	}{
		{"u-1000", 1, true}, {"u-1001", 1, false}, {"u-1000", 2, false}, {"u-1001", 2, true}, {"u-1000", 3, true}, {"u-1001", 3, true},
		{"u-1002", 1, false}, {"u-1002", 3, true}, {"u-1000", 4, false},
	} {
		if got := each.Has(c.namespace, "sha256:"+hash(c.thing)); got != c.want {
			t.Errorf("%s, %d: %v", c.namespace, c.thing, got)
		}
	}
	all := each.All()
	if all.Len() != 3 || !all.Has(hash(1)) || !all.Has(hash(2)) || !all.Has(hash(3)) {
		t.Errorf("%d references of all", all.Len())
	}
}
