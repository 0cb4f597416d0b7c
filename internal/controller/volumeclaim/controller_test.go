package volumeclaim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	class := StorageClass
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("1234-" + name[:1])},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
}

func newClass(policy corev1.PersistentVolumeReclaimPolicy) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: StorageClass}, Provisioner: Provisioner, ReclaimPolicy: &policy}
}

// world is an API server and the controller.
type world struct {
	t *testing.T
	client.Client
	*Controller
	events *events.FakeRecorder
	fail   func() error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	w := &world{t: t, events: events.NewFakeRecorder(100), fail: func() error { return nil }}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1.PersistentVolume{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := w.fail(); err != nil {
					return err
				}
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := w.fail(); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := w.fail(); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
		}).Build()
	w.Controller = New(Deps{Dir: filepath.Join(t.TempDir(), "volumes"), Node: "here"})
	w.client, w.recorder = w.Client, w.events
	return w
}

func (w *world) serve(name string) error {
	_, err := w.provision(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "vision", Name: name}})
	return err
}

func (w *world) look(name string) error {
	_, err := w.release(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	return err
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	w.t.Helper()
	v := &corev1.PersistentVolume{}
	must(w.t, w.Get(w.t.Context(), types.NamespacedName{Name: name}, v))
	return v
}

func (w *world) gone(name string) bool {
	return apierrors.IsNotFound(w.Get(w.t.Context(), types.NamespacedName{Name: name}, &corev1.PersistentVolume{}))
}

func (w *world) phase(name string, phase corev1.PersistentVolumePhase) {
	w.t.Helper()
	v := w.volume(name)
	v.Status.Phase = phase
	must(w.t, w.Status().Update(w.t.Context(), v))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestClaimBecomesFolderAndVolume(t *testing.T) {
	claim := newClaim("data")
	w := newWorld(t, claim, newClass(corev1.PersistentVolumeReclaimDelete))
	must(t, w.serve("data"))
	must(t, w.serve("data")) // once more changes nothing
	v := w.volume("pvc-1234-d")
	path := filepath.Join(w.deps.Dir, "vision", "data-1234-d")
	if v.Spec.HostPath.Path != path || v.Spec.ClaimRef.UID != claim.UID || v.Spec.ClaimRef.Name != "data" || len(v.Spec.AccessModes) != 2 ||
		v.Spec.StorageClassName != StorageClass || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "here" || v.Spec.Capacity.Storage().String() != "10Gi" {
		t.Errorf("%+v", v.Spec)
	}
	info, err := os.Stat(path)
	must(t, err)
	want := os.FileMode(ownMode)
	if os.Geteuid() == 0 {
		want = sharedMode
	}
	if !info.IsDir() || info.Mode().Perm() != want {
		t.Errorf("%v", info.Mode())
	}
	// In use, nothing is removed.
	w.phase(v.Name, corev1.VolumeBound)
	must(t, w.look(v.Name))
	w.phase(v.Name, corev1.VolumeReleased) // says somebody, but the claim is there
	must(t, w.look(v.Name))
	if !exists(path) {
		t.Fatal("a folder in use was removed")
	}
	// Released, everything is.
	must(t, os.WriteFile(filepath.Join(path, "model"), nil, 0o600))
	must(t, w.Delete(t.Context(), claim))
	must(t, w.look(v.Name)) // the folder goes, and the volume is deleted
	must(t, w.look(v.Name)) // its deletion is let happen
	if exists(path) || exists(filepath.Dir(path)) || !w.gone(v.Name) {
		t.Error("something is left")
	}
	must(t, w.look(v.Name))
}

func TestRetainKeepsTheFolder(t *testing.T) {
	claim := newClaim("data")
	w := newWorld(t, claim, newClass(corev1.PersistentVolumeReclaimRetain))
	must(t, w.serve("data"))
	v := w.volume("pvc-1234-d")
	must(t, w.Delete(t.Context(), claim))
	w.phase(v.Name, corev1.VolumeReleased)
	must(t, w.look(v.Name))
	if !exists(v.Spec.HostPath.Path) || w.gone(v.Name) {
		t.Fatal("it was removed")
	}
	must(t, w.Delete(t.Context(), w.volume(v.Name)))
	must(t, w.look(v.Name))
	if !exists(v.Spec.HostPath.Path) || !w.gone(v.Name) {
		t.Error("the object should go, and the folder stay")
	}
}

// A home that was restored elsewhere removes its own folder, and never that of the
// home in which the volume was made.
func TestAFolderOfAnotherHome(t *testing.T) {
	claim := newClaim("data")
	w := newWorld(t, claim, newClass(corev1.PersistentVolumeReclaimDelete))
	must(t, w.serve("data"))
	v := w.volume("pvc-1234-d")
	there := v.Spec.HostPath.Path
	w.deps.Dir = filepath.Join(t.TempDir(), "volumes")
	here := filepath.Join(w.deps.Dir, "vision", filepath.Base(there))
	must(t, os.MkdirAll(here, 0o755))
	must(t, w.Delete(t.Context(), claim))
	w.phase(v.Name, corev1.VolumeReleased)
	must(t, w.look(v.Name))
	must(t, w.look(v.Name))
	if exists(here) || !exists(there) || !w.gone(v.Name) {
		t.Errorf("here it is: %t, there: %t; the object is gone: %t", exists(here), exists(there), w.gone(v.Name))
	}
}

func TestVolumeDeletedByHandWhileInUse(t *testing.T) {
	claim := newClaim("data")
	w := newWorld(t, claim, newClass(corev1.PersistentVolumeReclaimDelete))
	must(t, w.serve("data"))
	v := w.volume("pvc-1234-d")
	must(t, w.Delete(t.Context(), v))
	must(t, w.look(v.Name))
	if !exists(v.Spec.HostPath.Path) || w.gone(v.Name) {
		t.Fatal("a folder in use was removed")
	}
	must(t, w.Delete(t.Context(), claim))
	must(t, w.look(v.Name))
	if exists(v.Spec.HostPath.Path) || !w.gone(v.Name) {
		t.Error("something is left")
	}
}

func TestClaimsThatAreNotServed(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	other := "other"
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		says   string
	}{
		"another class":  {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &other }, ""},
		"no class":       {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, ""},
		"bound":          {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" }, ""},
		"lost":           {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, ""},
		"a block device": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, "use Filesystem"},
		"a selector":     {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, "selector"},
		"a copy": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Name: "x"}
		}, "data source"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim("data")
			c.change(claim)
			w := newWorld(t, claim, newClass(corev1.PersistentVolumeReclaimDelete), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Provisioner: "x.test/y"})
			must(t, w.serve("data"))
			if !w.gone("pvc-1234-d") || exists(w.deps.Dir) {
				t.Error("it was served")
			}
			said := ""
			if len(w.events.Events) > 0 {
				said = <-w.events.Events
			}
			if (c.says == "") != (said == "") || !strings.Contains(said, c.says) {
				t.Errorf("%q", said)
			}
		})
	}
}

func TestNothingOutsideIsTouched(t *testing.T) {
	outside := t.TempDir()
	precious := filepath.Join(outside, "precious")
	must(t, os.Mkdir(precious, 0o755))
	f := folders{filepath.Join(t.TempDir(), "volumes")}
	inside, err := f.create("vision/data-1", nil)
	must(t, err)
	must(t, os.Symlink(outside, filepath.Join(f.dir, "linked")))
	must(t, os.Symlink(precious, filepath.Join(inside, "link")))
	for _, path := range []string{
		precious, f.dir, filepath.Join(f.dir, "vision"), f.dir + "/../x", f.dir + "/vision/..", f.dir + "/vision/../../x/y",
		f.dir + "/linked/precious", f.dir + "/vision/data-1/deep", f.dir + "x/vision/data-1", "/", "", f.dir + "/.hidden/x",
	} {
		if err := f.remove(path); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
	must(t, f.remove(f.dir+"/none/at-all"))
	must(t, f.remove(inside))
	if exists(inside) || !exists(precious) || !exists(filepath.Join(f.dir, "linked")) {
		t.Error("the wrong thing was removed")
	}
	must(t, os.WriteFile(filepath.Join(f.dir, "taken"), nil, 0o600))
	if _, err := f.create("taken/data-1", nil); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("got %v", err)
	}
	if _, err := f.create("linked/data-1", nil); err == nil || exists(filepath.Join(outside, "data-1")) {
		t.Errorf("through a link: %v", err)
	}
}

func TestFolderNames(t *testing.T) {
	claim := newClaim("data")
	claim.Name = strings.Repeat("n", 253)
	claim.UID = "01234567-89ab-cdef-0123-456789abcdef"
	folder, err := folderOf(claim)
	if err != nil || len(filepath.Base(folder)) != maxName || !strings.HasSuffix(folder, string(claim.UID)) {
		t.Errorf("%s %v", folder, err)
	}
	for _, bad := range []func(*corev1.PersistentVolumeClaim){
		func(c *corev1.PersistentVolumeClaim) { c.Name = "../x" },
		func(c *corev1.PersistentVolumeClaim) { c.Name = "a/b" },
		func(c *corev1.PersistentVolumeClaim) { c.Namespace = ".." },
		func(c *corev1.PersistentVolumeClaim) { c.Namespace = "" },
		func(c *corev1.PersistentVolumeClaim) { c.UID = "" },
		func(c *corev1.PersistentVolumeClaim) { c.UID = "/../../x" },
	} {
		claim := newClaim("data")
		bad(claim)
		if folder, err := folderOf(claim); err == nil {
			t.Errorf("%q was accepted", folder)
		}
	}
}

// TestEveryWriteInTurnFails walks a claim through its life, failing the nth
// write, for every n.
func TestEveryWriteInTurnFails(t *testing.T) {
	broken := errors.New("connection reset by peer")
	live := func(t *testing.T, n int) (writes int) {
		claim := newClaim("data")
		w := newWorld(t, claim, newClass(corev1.PersistentVolumeReclaimDelete))
		deleting := false
		w.fail = func() error {
			if deleting {
				return nil
			}
			writes++
			if writes == n+1 {
				return broken
			}
			return nil
		}
		for range 2 {
			if err := w.serve("data"); err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		path := w.volume("pvc-1234-d").Spec.HostPath.Path
		w.phase("pvc-1234-d", corev1.VolumeReleased)
		deleting = true
		must(t, w.Delete(t.Context(), claim))
		deleting = false
		for range 3 {
			if err := w.look("pvc-1234-d"); err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		if exists(path) || !w.gone("pvc-1234-d") {
			t.Errorf("something is left")
		}
		return writes
	}
	for n := range live(t, -1) {
		live(t, n)
	}
}
