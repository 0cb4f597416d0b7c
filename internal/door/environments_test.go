package door

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/environment/bundle"
)

var aKey = strings.Repeat("e5", 32)

// pod is one on a node with an environment, which it builds or has.
func (h *house) pod(namespace, name, node, key string, builds bool) {
	h.Helper()
	csi := &corev1.CSIVolumeSource{Driver: v1alpha1.EnvironmentDriver, VolumeAttributes: map[string]string{"key": key}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	if builds {
		csi.VolumeAttributes["build"] = "true"
		pod.Labels = map[string]string{v1alpha1.LabelBuild: key[:63]}
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "env", VolumeSource: corev1.VolumeSource{CSI: csi}}}
	h.must(h.api.Create(h.Context(), pod))
}

// packed is an environment as an agent packs it.
func (h *house) packed() (bundle.Packed, string) {
	h.Helper()
	dir, file := h.TempDir(), filepath.Join(h.TempDir(), "tar")
	h.must(os.Mkdir(filepath.Join(dir, "lib"), 0o755))
	h.must(os.WriteFile(filepath.Join(dir, "lib", "module.py"), []byte("WORD = 1\n"), 0o600))
	h.must(os.WriteFile(filepath.Join(dir, bundle.NoteFile), []byte(`{"python": "3.13.1", "searchPath": "/usr/bin"}`), 0o600))
	p, err := bundle.Pack(h.Context(), dir, file)
	h.must(err)
	return p, file
}

// An environment comes from the node that builds it, and goes to the nodes whose
// pods name it.
func TestEnvironmentsComeAndGo(t *testing.T) {
	h := open(t, true)
	packed, file := h.packed()
	h.pod("ada", "build", "node-1", aKey, true)
	h.pod("ada", "member", "node-2", aKey, false)
	for name, err := range map[string]error{
		"a tenant that sends":   h.as("ada").SendEnvironment(t.Context(), "ada", aKey, packed, file),
		"no key":                h.as("node").SendEnvironment(t.Context(), "ada", "x", packed, file),
		"another than is said":  h.as("node").SendEnvironment(t.Context(), "ada", aKey, bundle.Packed{Note: packed.Note, Hash: strings.Repeat("0", 64), Size: packed.Size}, file),
		"one that is too short": h.as("node").SendEnvironment(t.Context(), "ada", aKey, bundle.Packed{Note: packed.Note, Hash: packed.Hash, Size: packed.Size - 1}, file),
	} {
		if !errors.Is(err, bundle.ErrUnwanted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.must(h.as("node").SendEnvironment(t.Context(), "ada", aKey, packed, file))
	for _, who := range []string{"node", "ada"} {
		dst := filepath.Join(t.TempDir(), "env")
		h.must(h.as(who).FetchEnvironment(t.Context(), "ada", aKey, dst))
		if text, err := os.ReadFile(filepath.Join(dst, "lib", "module.py")); err != nil || string(text) != "WORD = 1\n" {
			t.Errorf("%s gets %q, %v", who, text, err)
		}
	}
	if err := h.as("bob").FetchEnvironment(t.Context(), "ada", aKey, filepath.Join(t.TempDir(), "env")); err == nil {
		t.Error("another tenant got it")
	}
	// A pod that has an environment does not build it, nor does one that Muster did
	// not make.
	for name, at := range map[string]struct {
		caller    Caller
		namespace string
		how       func(*corev1.Pod, *corev1.CSIVolumeSource) bool
		ok        bool
	}{
		"the build":           {Caller{Node: "node-1"}, "ada", builds, true},
		"a member":            {Caller{Node: "node-2"}, "ada", builds, false},
		"a member that reads": {Caller{Node: "node-2"}, "ada", uses, true},
		"another node":        {Caller{Node: "node-3"}, "ada", uses, false},
		"another namespace":   {Caller{Node: "node-1"}, "bob", uses, false},
	} {
		if _, err := h.door.podWith(t.Context(), at.caller, at.namespace, aKey, at.how); (err == nil) != at.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where there is no room the build is told, for its job waits for it.
func TestAnEnvironmentForWhichThereIsNoRoom(t *testing.T) {
	h := open(t, false)
	folder, err := shelf.OpenFolder(t.TempDir())
	h.must(err)
	h.door.opts.Code = depot.New(depot.Options{Shelf: folder, Quota: 10})
	packed, file := h.packed()
	h.pod("ada", "build", "node-1", aKey, true)
	if err := h.as("node").SendEnvironment(t.Context(), "ada", aKey, packed, file); !errors.Is(err, bundle.ErrUnwanted) {
		t.Errorf("the agent is told %v", err)
	}
	pod := &corev1.Pod{}
	h.must(h.api.Get(t.Context(), client.ObjectKey{Namespace: "ada", Name: "build"}, pod))
	if !strings.Contains(pod.Annotations[v1alpha1.AnnotationRefused], "10 B are allowed") {
		t.Errorf("the build is told %q", pod.Annotations)
	}
}
