package workshop

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/bundle"
)

var errNone = errors.New("not stored")

// kept are environments that are stored, by namespace and key.
type kept map[string]bundle.Packed

func (k kept) Environment(_ context.Context, namespace, key string) (bundle.Packed, error) {
	if p, is := k[namespace+"/"+key]; is {
		return p, nil
	}
	return bundle.Packed{}, fmt.Errorf("environment %s: %w", key, errNone)
}

// stage is a workshop before an API server without controllers.
type stage struct {
	*testing.T
	client.Client
	shop   *Workshop
	store  kept
	now    time.Time
	writes []string
	fails  error
}

func newStage(t *testing.T) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, store: kept{}, now: noon}
	note := func(verb string, o client.Object) error {
		s.writes = append(s.writes, verb+" "+o.GetName()[:6])
		return s.fails
	}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := note("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return errors.Join(note("patch", o), c.Patch(ctx, o, p, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return errors.Join(note("delete", o), c.Delete(ctx, o, opts...))
		},
	}).Build()
	s.shop = New(Options{Store: s.store, NotStored: errNone, Index: "https://packages.test/simple", Now: func() time.Time { return s.now }})
	s.shop.client = s.Client
	return s
}

// asks has a job ask, and checks the answer and what was written because of it.
func (s *stage) asks(job string, phase environment.Phase, says string, writes ...string) environment.State {
	s.Helper()
	s.writes = nil
	state := s.shop.Ensure(aJob(job), environment.Request{Requirements: "numpy", Image: "python:3.13"})
	if state.Phase != phase || !strings.Contains(state.Message, says) {
		s.Errorf("%s is told %s: %q; want %s: %q", job, state.Phase, state.Message, phase, says)
	}
	if got, want := fmt.Sprint(s.writes), fmt.Sprint(writes); got != want && len(s.writes)+len(writes) > 0 {
		s.Errorf("%s has %s written, want %s", job, got, want)
	}
	return state
}

func (s *stage) pod() *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: "vision", Name: nameOf(aBuild(s.T).key)}, pod); err != nil {
		s.Fatal(err)
	}
	return pod
}

// Two jobs that ask at once have it built once, and both keep the build; what is
// stored is built no more.
func TestTwoJobsOneBuild(t *testing.T) {
	s := newStage(t)
	s.asks("a", environment.Building, "a pod is made", "create build-")
	s.asks("a", environment.Building, "waits for a node")
	s.asks("b", environment.Building, "waits for a node", "patch build-")
	s.asks("b", environment.Building, "waits for a node")
	pod := s.pod()
	if len(pod.OwnerReferences) != 2 || pod.OwnerReferences[1].Name != "b" {
		t.Errorf("it belongs to %+v", pod.OwnerReferences)
	}
	for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
		if _, asks := list[v1alpha1.ResourceGPU]; asks {
			t.Error("the build asks for a GPU")
		}
	}
	if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
		t.Error("the build has a token")
	}
	s.store["vision/"+aBuild(t).key] = bundle.Packed{Note: bundle.Note{Python: "3.13.1", SearchPath: "/usr/bin"}}
	if state := s.asks("a", environment.Ready, "Python 3.13.1", "delete build-"); state.SearchPath != "/usr/bin" || state.Key != aBuild(t).key {
		t.Errorf("it is told %+v", state)
	}
	s.asks("c", environment.Ready, "Python 3.13.1")
}

// TestArchitectures: an environment is built where its members will run, and is another
// one there; members that say nothing keep the key that they had.
func TestArchitectures(t *testing.T) {
	r := environment.Request{Requirements: "numpy", Image: "python:3.13"}
	on := func(architecture string) v1alpha1.Role {
		role := v1alpha1.Role{Name: "on-" + architecture, Template: &corev1.PodTemplateSpec{}}
		role.Template.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: architecture, "zone": "a"}
		return role
	}
	anywhere := v1alpha1.Role{Name: "anywhere"}
	o := Options{NodeSelector: map[string]string{"agent": "true"}, Limit: time.Hour}
	keys := map[string]string{}
	for architecture, roles := range map[string][]v1alpha1.Role{"": {anywhere}, "arm64": {anywhere, on("arm64"), on("arm64")}, "amd64": {on("amd64")}} {
		b, err := order(r, r.Image, roles)
		if err != nil {
			t.Fatal(err)
		}
		nodes := o.podFor(customer{namespace: "vision"}, b).Spec.NodeSelector
		if nodes[corev1.LabelArchStable] != architecture || nodes["agent"] != "true" || nodes["zone"] != "" {
			t.Errorf("for %q: built on %v", architecture, nodes)
		}
		if of, known := keys[b.key]; known {
			t.Errorf("%q and %q have one environment", of, architecture)
		}
		keys[b.key] = architecture
	}
	if keys[aBuild(t).key] != "" || len(o.NodeSelector) != 1 {
		t.Errorf("without any: %v, %v", keys[aBuild(t).key], o.NodeSelector)
	}
	if _, err := order(r, r.Image, []v1alpha1.Role{on("arm64"), on("amd64")}); err == nil || !strings.Contains(err.Error(), "roles on-arm64 and on-amd64 want nodes of different architectures") {
		t.Errorf("two of them: %v", err)
	}
}

// A stage of a run asks before its job is there, for the same build as a job; it runs as
// the stage's members do.
func TestAStageAsks(t *testing.T) {
	s := newStage(t)
	run := &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "words-1", UID: "uid-run"}}
	roles := []v1alpha1.Role{{Name: "worker", Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}}}}
	asks := func() environment.State {
		return s.shop.EnsureFor(run, roles, environment.Request{Requirements: "numpy", Image: "python:3.13"})
	}
	if state := asks(); state.Phase != environment.Building {
		t.Fatalf("it is told %+v", state)
	}
	s.asks("words-1-tell", environment.Building, "waits for a node", "patch build-")
	pod := s.pod()
	if o := pod.OwnerReferences; len(o) != 2 || o[0].Kind != "PipelineRun" || o[0].UID != run.UID || o[1].Kind != "TrainingJob" {
		t.Errorf("it belongs to %+v", o)
	}
	if p := pod.Spec.ImagePullSecrets; len(p) != 1 || p[0].Name != "registry" {
		t.Errorf("its image is pulled with %+v", p)
	}
	s.store["vision/"+aBuild(t).key] = bundle.Packed{Note: bundle.Note{Python: "3.13.1", Platform: "linux-x86_64", Packages: []string{"numpy-2.1.0"}}, Hash: "h"}
	want := &environment.Lock{Python: "3.13.1", Platform: "linux-x86_64", Packages: []string{"numpy-2.1.0"}, Hash: "h"}
	if state := asks(); state.Phase != environment.Ready || !reflect.DeepEqual(state.Lock, want) {
		t.Errorf("it is told %+v", state)
	}
}

func TestAFailureStandsForAWhile(t *testing.T) {
	s := newStage(t)
	s.asks("a", environment.Building, "a pod is made", "create build-")
	pod := s.pod()
	ends(corev1.PodFailed, 0, "ERROR: No matching distribution")(pod)
	if err := s.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.asks("a", environment.Failed, "No matching distribution")
	s.now = s.now.Add(time.Minute)
	s.asks("b", environment.Building, "tried again", "delete build-")
	s.asks("b", environment.Building, "a pod is made", "create build-")
}

// What the API server does not allow is told, and asked for again.
func TestARefusedBuild(t *testing.T) {
	s := newStage(t)
	s.fails = errors.New("exceeded quota: pods")
	s.asks("a", environment.Building, "exceeded quota: pods; trying again", "create build-")
	s.asked()
	s.fails = nil
	s.asks("a", environment.Building, "a pod is made", "create build-")
}

// asked waits until whoever was told of something that nobody posts is asked again.
func (s *stage) asked() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*lookAgain)
	ended := make(chan error, 1)
	go func() { ended <- s.shop.run(ctx) }()
	select {
	case <-s.shop.Changes():
	case <-ctx.Done():
		s.Error("nobody asks again")
	}
	cancel()
	if err := <-ended; err != nil {
		s.Error(err)
	}
}

// script runs what a build's container runs, with the machine's Python, in a
// folder; it returns what would be the container's last words.
func script(t *testing.T, requirements, python, most string, more ...string) (folder, said string, err error) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatalf("Muster wants python3: %v", err)
	}
	folder = filepath.Join(t.TempDir(), "env")
	last := filepath.Join(t.TempDir(), "words")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", start, folder, last)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "HOME=" + t.TempDir(), "PIP_NO_INDEX=1", "MUSTER_PROGRAM=" + program, "MUSTER_REQUIREMENTS=" + requirements, "MUSTER_PYTHON=" + python, "MUSTER_MOST=" + most}
	cmd.Env = append(cmd.Env, more...)
	out, err := cmd.CombinedOutput()
	words, _ := os.ReadFile(last)
	t.Logf("%s", out)
	return folder, string(words), err
}

func TestTheProgram(t *testing.T) {
	folder, _, err := script(t, "", "", "1000000000")
	if err != nil {
		t.Fatal(err)
	}
	note, err := bundle.ReadNote(folder)
	// What stands for python3 may have put itself before it.
	if err != nil || !strings.HasSuffix(note.SearchPath, os.Getenv("PATH")) || note.Platform == "" {
		t.Errorf("it notes %+v, %v", note, err)
	}
	raw, err := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", "python"), "-c", `import json, sys; print(json.dumps([sys.prefix, sys.version.split()[0]]))`).Output()
	var says []string
	if err = errors.Join(err, json.Unmarshal(raw, &says)); err != nil || says[0] != folder || says[1] != note.Python {
		t.Errorf("its Python says %v, %v", says, err)
	}
}

// What was installed is noted, with what was fetched of packages whose version does not
// say it: they came from a place of their own.
func TestWhatTheProgramNotes(t *testing.T) {
	wheels, server := wheelsAt(t, map[string]string{"plainly": "1.2", "directly": "3"})
	folder, _, err := script(t, "--find-links "+server+"\nplainly>=1\ndirectly @ "+server+"/directly-3-py3-none-any.whl\n", "", "1000000000")
	if err != nil {
		t.Fatal(err)
	}
	note, err := bundle.ReadNote(folder)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, p := range note.Packages {
		if strings.HasPrefix(p, "plainly") || strings.HasPrefix(p, "directly") {
			ours = append(ours, p)
		}
	}
	sum := sha256.Sum256(wheels["directly"])
	want := []string{"directly-3 @ sha256=" + hex.EncodeToString(sum[:]), "plainly-1.2"}
	if !slices.Equal(ours, want) {
		t.Errorf("it notes %v, want %v", ours, want)
	}
}

// wheelsAt serves packages of one module by their names and versions.
func wheelsAt(t *testing.T, versions map[string]string) (wheels map[string][]byte, address string) {
	t.Helper()
	wheels = map[string][]byte{}
	index := ""
	for name, version := range versions {
		var out bytes.Buffer
		archive := zip.NewWriter(&out)
		info := name + "-" + version + ".dist-info/"
		for path, text := range map[string]string{
			name + ".py":      "",
			info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
			info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			info + "RECORD":   "",
		} {
			w, err := archive.Create(path)
			if err == nil {
				_, err = io.WriteString(w, text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		wheels[name] = out.Bytes()
		file := name + "-" + version + "-py3-none-any.whl"
		index += fmt.Sprintf("<a href=%q>%[1]s</a>", file)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, is := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "-")
		if !is {
			_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>"+index+"</body></html>")
			return
		}
		_, _ = w.Write(wheels[name])
	}))
	t.Cleanup(server.Close)
	return wheels, server.URL
}

func TestWhatTheProgramSaysOfFailure(t *testing.T) {
	for name, c := range map[string]struct{ requirements, python, most, says string }{
		"no such package": {"nothing-of-this-name==1.2", "", "0", "No matching distribution found for nothing-of-this-name==1.2"},
		"another Python":  {"", "3.1", "0", "the job asks for 3.1"},
		"too large":       {"", "", "10", "the store of this cluster takes 0.0 GiB of a namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, said, err := script(t, c.requirements, c.python, c.most)
			if err == nil || !strings.Contains(said, c.says) {
				t.Errorf("it ended with %v and said %q, want %q", err, said, c.says)
			}
			if _, err := bundle.ReadNote(folder); err == nil {
				t.Error("it is noted as whole")
			}
		})
	}
}
