package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/process"
)

// objects is an API in memory.
type objects struct {
	configMaps map[string]*corev1.ConfigMap
	claim      *corev1.PersistentVolumeClaim
	pv         *corev1.PersistentVolume
	tokens     atomic.Int32
	expires    time.Time
}

func missing(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

func (o *objects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if m := o.configMaps[name]; m != nil {
		return m, nil
	}
	return nil, missing(name)
}

func (o *objects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, missing(name)
}

func (o *objects) Claim(_ context.Context, _, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	if o.claim == nil {
		return nil, nil, missing(name)
	}
	return o.claim, o.pv, nil
}

func (o *objects) Token(context.Context, *corev1.Pod, string, int64) (string, time.Time, error) {
	o.tokens.Add(1)
	return "token", o.expires, nil
}

func newManager(t *testing.T, o *objects, edit func(*Config)) *Manager {
	t.Helper()
	c := Config{PodsDir: t.TempDir(), JobsDir: t.TempDir(), Objects: o, Now: time.Now}
	if edit != nil {
		edit(&c)
	}
	return New(c)
}

func podWith(source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}},
	}
}

// tree reads the visible files of a folder.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := filepath.Glob(filepath.Join(folder, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(name)] = string(data)
	}
	return out
}

func TestConfigMapFollowsChanges(t *testing.T) {
	o := &objects{configMaps: map[string]*corev1.ConfigMap{"cm": {Data: map[string]string{"a": "1", "b": "2"}}}}
	m := newManager(t, o, nil)
	pod := podWith(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}})
	for _, data := range []map[string]string{{"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"a": "3", "c": "4"}} {
		o.configMaps["cm"] = &corev1.ConfigMap{Data: data}
		volumes, err := m.Prepare(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(data, tree(t, volumes["v"].Path)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestItemsModesAndOptional(t *testing.T) {
	o := &objects{configMaps: map[string]*corev1.ConfigMap{"cm": {Data: map[string]string{"a": "1"}}}}
	m, yes, mode := newManager(t, o, nil), true, int32(0o400)
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	cases := []struct {
		name   string
		source corev1.ConfigMapVolumeSource
		want   map[string]string
		fails  bool
	}{
		{"items", corev1.ConfigMapVolumeSource{LocalObjectReference: ref("cm"), Items: []corev1.KeyToPath{{Key: "a", Path: "x", Mode: &mode}}}, map[string]string{"x": "1"}, false},
		{"missing key", corev1.ConfigMapVolumeSource{LocalObjectReference: ref("cm"), Items: []corev1.KeyToPath{{Key: "z", Path: "x"}}}, nil, true},
		{"missing", corev1.ConfigMapVolumeSource{LocalObjectReference: ref("none")}, nil, true},
		{"optional", corev1.ConfigMapVolumeSource{LocalObjectReference: ref("none"), Optional: &yes}, map[string]string{}, false},
		{"escaping", corev1.ConfigMapVolumeSource{LocalObjectReference: ref("cm"), Items: []corev1.KeyToPath{{Key: "a", Path: "../x"}}}, nil, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			volumes, err := m.Prepare(t.Context(), podWith(corev1.VolumeSource{ConfigMap: &c.source}))
			if (err != nil) != c.fails {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				if diff := cmp.Diff(c.want, tree(t, volumes["v"].Path)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestTokenIsRenewed(t *testing.T) {
	now := time.Now()
	o := &objects{expires: now.Add(time.Hour)}
	m := newManager(t, o, func(c *Config) { c.Now = func() time.Time { return now } })
	pod := podWith(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
	}}})
	for _, step := range []struct {
		pass time.Duration
		want int32
	}{{0, 1}, {40 * time.Minute, 1}, {10 * time.Minute, 2}} {
		now = now.Add(step.pass)
		o.expires = now.Add(time.Hour)
		if _, err := m.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if got := o.tokens.Load(); got != step.want {
			t.Errorf("after %v: asked for %d tokens, want %d", step.pass, got, step.want)
		}
	}
}

func TestClaim(t *testing.T) {
	folder := t.TempDir()
	o := &objects{}
	m := newManager(t, o, nil)
	pod := podWith(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})
	if _, err := m.Prepare(t.Context(), pod); err == nil {
		t.Error("a claim that is missing")
	}
	o.claim = &corev1.PersistentVolumeClaim{}
	if _, err := m.Prepare(t.Context(), pod); err == nil {
		t.Error("a claim that is not bound")
	}
	o.claim.Status.Phase = corev1.ClaimBound
	o.pv = &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}}}}
	volumes, err := m.Prepare(t.Context(), pod)
	if err != nil || volumes["v"].Path != folder {
		t.Errorf("got %v, %v", volumes, err)
	}
	// Not bound yet, and the volume is another claim's; then this one's.
	o.claim.Status.Phase, o.claim.UID = corev1.ClaimPending, "mine"
	o.pv.Spec.ClaimRef = &corev1.ObjectReference{UID: "other"}
	if _, err := m.Prepare(t.Context(), pod); err == nil {
		t.Error("a volume of another claim")
	}
	o.pv.Spec.ClaimRef.UID = "mine"
	if _, err := m.Prepare(t.Context(), pod); err != nil {
		t.Errorf("a volume that names the claim: %v", err)
	}
}

// A volume that Muster made is looked for in this home, whatever home it was made
// in; others are where they say.
func TestClaimsOfAnotherHome(t *testing.T) {
	volumes, elsewhere := t.TempDir(), t.TempDir()
	for _, dir := range []string{volumes, elsewhere} {
		if err := os.MkdirAll(filepath.Join(dir, "team", "saves-1234"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	there, here := filepath.Join(elsewhere, "team", "saves-1234"), filepath.Join(volumes, "team", "saves-1234")
	for name, c := range map[string]struct {
		by    string
		claim corev1.ObjectReference
		want  string
	}{
		"made by Muster":              {"muster.dev/local", corev1.ObjectReference{Namespace: "team", Name: "saves", UID: "1234"}, here},
		"made by somebody else":       {"example.com/local", corev1.ObjectReference{Namespace: "team", Name: "saves", UID: "1234"}, there},
		"of another claim's name":     {"muster.dev/local", corev1.ObjectReference{Namespace: "team", Name: "saves", UID: "9"}, there},
		"of another claim's quarters": {"muster.dev/local", corev1.ObjectReference{Namespace: "other", Name: "saves", UID: "1234"}, there},
	} {
		o := &objects{claim: &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}}
		o.pv = &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": c.by}},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &c.claim,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: there}},
			},
		}
		m := newManager(t, o, nil)
		m.config.VolumesDir = volumes
		got, err := m.Prepare(t.Context(), podWith(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}))
		if err != nil || got["v"].Path != c.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestHostPathTypes(t *testing.T) {
	folder := t.TempDir()
	file, pipe := filepath.Join(folder, "file"), filepath.Join(folder, "pipe")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		path string
		kind corev1.HostPathType
		ok   bool
	}{
		{folder, corev1.HostPathUnset, true}, {folder, corev1.HostPathDirectory, true}, {folder, corev1.HostPathFile, false},
		{file, corev1.HostPathFile, true}, {file, corev1.HostPathDirectory, false}, {file, corev1.HostPathSocket, false},
		{filepath.Join(folder, "new"), corev1.HostPathDirectoryOrCreate, true},
		{filepath.Join(folder, "newfile"), corev1.HostPathFileOrCreate, true},
		{filepath.Join(folder, "none"), corev1.HostPathDirectory, false},
		{"/dev/null", corev1.HostPathCharDev, true},
		{pipe, corev1.HostPathFileOrCreate, false}, {pipe, corev1.HostPathDirectoryOrCreate, false},
	}
	for _, c := range cases {
		if _, err := hostPath(&corev1.HostPathVolumeSource{Path: c.path, Type: &c.kind}); (err == nil) != c.ok {
			t.Errorf("%s as %s: %v", c.path, c.kind, err)
		}
	}
}

// slowCode counts checkouts.
type slowCode struct {
	count atomic.Int32
	fail  atomic.Bool
}

func (s *slowCode) Checkout(_ context.Context, _, _, dir string) error {
	s.count.Add(1)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if s.fail.Load() {
		return errors.New("broken")
	}
	return os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)
}

func TestCodeIsCheckedOutOnce(t *testing.T) {
	code := &slowCode{}
	m := newManager(t, &objects{}, func(c *Config) { c.Code = code })
	source := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"snapshot": "sha256:ab", "job": "j"}}}
	code.fail.Store(true)
	if _, err := m.Prepare(t.Context(), podWith(source)); err == nil {
		t.Fatal("a checkout that fails")
	}
	code.fail.Store(false)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			volumes, err := m.Prepare(t.Context(), podWith(source))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(volumes["v"].Path, "f")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := code.count.Load(); got != 2 {
		t.Errorf("%d checkouts, want the failed one and one more", got)
	}
}

func TestSubPathStaysInside(t *testing.T) {
	volume, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	see := func(sub string) (View, error) {
		return See(t.Context(), Request{
			Pod:       &corev1.Pod{},
			Container: &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/muster/data", SubPath: sub}}},
			Volumes:   map[string]Volume{"v": {Path: volume}},
			Root:      t.TempDir(), Isolated: true,
			Expand: func(s string) string { return s },
		})
	}
	for _, sub := range []string{"link", "link/deeper", "../x", "/etc"} {
		if _, err := see(sub); err == nil {
			t.Errorf("the subPath %q leads outside and was accepted", sub)
		}
	}
	view, err := see("a/b")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{v1alpha1.PodRoot, v1alpha1.PodRoot + "/data"}
	var got []string
	for _, m := range view.Mounts {
		got = append(got, m.Target)
	}
	if diff := cmp.Diff(want, got); diff != "" || view.Mounts[1].Source != volume || view.Mounts[1].SubPath != "a/b" {
		t.Error(diff, view.Mounts)
	}
}

func TestViews(t *testing.T) {
	code, data := t.TempDir(), t.TempDir()
	volumes := map[string]Volume{"code": {Path: code, Own: true}, "data": {Path: data}, "env": {Path: "/venv", ReadOnly: true, Environment: true}}
	ctr := &corev1.Container{WorkingDir: "/muster/code", VolumeMounts: []corev1.VolumeMount{
		{Name: "data", MountPath: "data"}, {Name: "code", MountPath: "/muster/code"}, {Name: "env", MountPath: "/muster/env"},
	}}
	t.Run("plain", func(t *testing.T) {
		root := t.TempDir()
		for range 2 { // the second time after a restart
			view, err := See(t.Context(), Request{Pod: &corev1.Pod{}, Container: ctr, Volumes: volumes, Root: root})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(View{Root: root, Dir: filepath.Join(root, "code"), Environment: "/venv", Links: []Link{
				{At: filepath.Join(root, "code"), To: code, Own: true}, {At: filepath.Join(root, "env"), To: "/venv"}, {At: filepath.Join(root, "code", "data"), To: data},
			}}, view, cmpopts.IgnoreUnexported(View{})); diff != "" {
				t.Error(diff)
			}
		}
		for link, want := range map[string]string{filepath.Join(root, "code"): code, filepath.Join(code, "data"): data} {
			if got, err := os.Readlink(link); err != nil || got != want {
				t.Errorf("%s leads to %q, %v; want %s", link, got, err, want)
			}
		}
	})
	t.Run("isolated", func(t *testing.T) {
		view, err := See(t.Context(), Request{Pod: &corev1.Pod{}, Container: ctr, Volumes: volumes, Root: "/r", Isolated: true})
		if err != nil {
			t.Fatal(err)
		}
		want := View{Root: "/muster", Dir: "/muster/code", Environment: "/venv", Mounts: []process.Mount{
			{Source: "/r", Target: "/muster"},
			{Source: code, Target: "/muster/code"},
			{Source: "/venv", Target: "/muster/env", ReadOnly: true},
			{Source: data, Target: "/muster/code/data"},
		}}
		if diff := cmp.Diff(want, view, cmpopts.IgnoreUnexported(View{})); diff != "" {
			t.Error(diff)
		}
	})
}

// shelf knows one folder.
type shelf struct{ folder string }

func (s shelf) Folder(_ context.Context, _, key, commit, path string) (string, error) {
	if key != "k" || commit != "c" || path != "/train" {
		return "", errors.New("fetching it: the store is away")
	}
	return s.folder, nil
}

// easel notes who has what be mounted.
type easel struct{ said []string }

func (e *easel) Mount(_ context.Context, _ string, pod types.UID, commit, path string) (string, error) {
	e.said = append(e.said, fmt.Sprintf("%s mounts %s:%s", pod, commit, path))
	return "/mounts/x/files", nil
}

func (e *easel) Forget(pod types.UID) error {
	e.said = append(e.said, fmt.Sprintf("%s is forgotten", pod))
	return nil
}

func TestLazyData(t *testing.T) {
	pod := podWith(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, VolumeAttributes: map[string]string{"commit": "c", "path": "/train", "lazy": "true"}}})
	e := &easel{}
	m := newManager(t, &objects{}, func(c *Config) { c.Data, c.Mounts = shelf{"/fetched"}, e })
	volumes, err := m.Prepare(t.Context(), pod)
	if diff := cmp.Diff(map[string]Volume{"v": {Path: "/mounts/x/files", ReadOnly: true}}, volumes); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if !Changing(pod) {
		t.Error("nobody looks whether its server lives")
	}
	if err := m.Forget(pod.UID); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{string(pod.UID) + " mounts c:/train", string(pod.UID) + " is forgotten"}, e.said); diff != "" {
		t.Error(diff)
	}
	if _, err := newManager(t, &objects{}, nil).Prepare(t.Context(), pod); err == nil {
		t.Error("a node without mounts")
	}
}

func TestData(t *testing.T) {
	source := func(key string) *corev1.Pod {
		return podWith(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, VolumeAttributes: map[string]string{"key": key, "commit": "c", "path": "/train"}}})
	}
	m := newManager(t, &objects{}, func(c *Config) { c.Data = shelf{"/fetched"} })
	volumes, err := m.Prepare(t.Context(), source("k"))
	if diff := cmp.Diff(map[string]Volume{"v": {Path: "/fetched", ReadOnly: true}}, volumes); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := m.Prepare(t.Context(), source("x")); err == nil || err.Error() != `preparing volume "v": fetching it: the store is away` {
		t.Errorf("%v", err)
	}
	if _, err := newManager(t, &objects{}, nil).Prepare(t.Context(), source("k")); err == nil {
		t.Error("a node without data")
	}
}

// benches are environments by their keys: "done" is complete, "new" is being built.
type benches struct{ dir string }

func (b benches) Path(_, key string) (string, error) {
	if key != "done" {
		return "", errors.New("it is not ready")
	}
	return b.dir, nil
}

func (b benches) Bench(_, key, who string) (string, error) {
	if key == "done" {
		return "", errors.New("it is complete")
	}
	return filepath.Join(b.dir, key, who), nil
}

// TestEnvironments: who uses one reads it, and who builds one writes to a folder that is
// for its pod alone.
func TestEnvironments(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		attributes map[string]string
		none       bool // the node has no environments
		want       Volume
		says       string
	}{
		"one that is ready":         {map[string]string{"key": "done"}, false, Volume{Path: dir, ReadOnly: true, Environment: true}, ""},
		"one of an image":           {map[string]string{"key": "done", "image": "true"}, false, Volume{Path: dir, ReadOnly: true, Environment: true}, ""},
		"one that is not":           {map[string]string{"key": "new"}, false, Volume{}, "finding environment new: it is not ready"},
		"one that is built":         {map[string]string{"key": "new", "build": "true"}, false, Volume{Path: filepath.Join(dir, "new", "u")}, ""},
		"one that was built":        {map[string]string{"key": "done", "build": "true"}, false, Volume{}, "it is complete"},
		"a folder":                  {map[string]string{"path": dir}, true, Volume{Path: dir, ReadOnly: true, Environment: true}, ""},
		"a file":                    {map[string]string{"path": file}, false, Volume{}, "is not a folder"},
		"no environments":           {map[string]string{"key": "done"}, true, Volume{}, "serves no environments"},
		"no environments, to build": {map[string]string{"build": "true"}, true, Volume{}, "serves no environments"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, &objects{}, func(o *Config) {
				if !c.none {
					o.Environments = benches{dir}
				}
			})
			got, err := m.Prepare(t.Context(), podWith(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.EnvironmentDriver, VolumeAttributes: c.attributes}}))
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it says %v, want %q", err, c.says)
				}
				return
			}
			if diff := cmp.Diff(map[string]Volume{"v": c.want}, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}
