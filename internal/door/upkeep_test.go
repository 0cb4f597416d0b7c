package door

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/shelf"
)

// What a job or a pod of the namespace names stays, however old it is.
func TestWhatIsNamedStays(t *testing.T) {
	h := open(t, false)
	folder, err := shelf.OpenFolder(t.TempDir())
	h.must(err)
	later := depot.New(depot.Options{Shelf: folder, Now: func() time.Time { return time.Now().Add(15 * 24 * time.Hour) }})
	h.door.opts.Code = later
	packed, file := h.packed()
	keys := map[string]string{}
	for _, name := range []string{"of a job", "of a pod", "of nobody"} {
		keys[name] = strings.Repeat(string("abc"[len(keys)])+"0", 32)
		h.pod("ada", "build-"+string("abc"[len(keys)-1]), "node-1", keys[name], true)
		h.must(h.as("node").SendEnvironment(t.Context(), "ada", keys[name], packed, file))
	}
	code := h.code("print(1)")
	if _, err := h.as("ada").Send(t.Context(), "ada", h.mine, code, nil); err != nil {
		t.Fatal(err)
	}
	// The builds are gone by then.
	for _, name := range []string{"build-a", "build-b", "build-c"} {
		h.must(h.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: name}}))
	}
	h.pod("ada", "member", "node-2", keys["of a pod"], false)
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "job"}}
	job.Spec.Code = &v1alpha1.Code{Snapshot: code}
	job.Status.EnvironmentKey = keys["of a job"]
	h.must(h.api.Create(t.Context(), job))
	staged := h.code("print(2)")
	if _, err := h.as("ada").Send(t.Context(), "ada", h.mine, staged, nil); err != nil {
		t.Fatal(err)
	}
	run := &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "run"}}
	run.Spec.Stages = []v1alpha1.Stage{{Name: "one", Code: &v1alpha1.Code{Snapshot: staged}}}
	h.must(h.api.Create(t.Context(), run))
	upkeep := Upkeep{Code: later, Jobs: h.api, Log: slog.New(slog.DiscardHandler)}
	pruned, err := upkeep.prune(t.Context())
	if err != nil || pruned.Environments != 1 || pruned.Snapshots != 0 {
		t.Errorf("removed: %+v, %v", pruned, err)
	}
	for name, key := range keys {
		err := h.as("ada").FetchEnvironment(t.Context(), "ada", key, filepath.Join(t.TempDir(), "env"))
		if (err == nil) == (name == "of nobody") {
			t.Errorf("that %s: %v", name, err)
		}
	}
	for what, digest := range map[string]string{"job": code, "run": staged} {
		if has, err := later.Has(t.Context(), "ada", digest); err != nil || !has {
			t.Errorf("the code of the %s: %v, %v", what, has, err)
		}
	}
}
