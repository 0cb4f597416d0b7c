package hearing

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/progress/bulletin"
)

// desk is a kubelet's folder, a listener, and a door that keeps what it hears.
type desk struct {
	*testing.T
	dir      string
	listener *Listener
	now      time.Time
	heard    []map[types.UID]v1alpha1.PodProgress
	closed   bool
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, dir: t.TempDir(), now: time.Now().Add(time.Minute)}
	d.listener = NewListener(ListenerOptions{KubeletDir: d.dir, Door: d, Now: func() time.Time { return d.now }})
	return d
}

func (d *desk) Report(_ context.Context, said map[types.UID]v1alpha1.PodProgress) error {
	if d.closed {
		return errors.New("nobody answers")
	}
	d.heard = append(d.heard, said)
	return nil
}

func (d *desk) folder(pod string) string {
	return filepath.Join(d.dir, "pods", pod, "volumes", "kubernetes.io~empty-dir", v1alpha1.ProgressVolume)
}

// writes has a pod report, under another file each time, as a rename does.
func (d *desk) writes(pod, text string) {
	d.Helper()
	if err := os.MkdirAll(d.folder(pod), 0o777); err != nil {
		d.Fatal(err)
	}
	to := filepath.Join(d.folder(pod), "report")
	if err := errors.Join(os.WriteFile(to+".new", []byte(text), 0o600), os.Rename(to+".new", to)); err != nil {
		d.Fatal(err)
	}
}

// after lets time pass, has the listener look once, and returns what the door
// heard of a pod; nil: nothing.
func (d *desk) after(passed time.Duration, pod types.UID) *v1alpha1.PodProgress {
	d.Helper()
	d.now = d.now.Add(passed)
	before := len(d.heard)
	d.listener.glance(d.Context(), func(time.Duration) bool { return true })
	if len(d.heard) == before {
		return nil
	}
	p, is := d.heard[before][pod]
	if !is {
		d.Fatalf("the door heard %v, and nothing of %s", d.heard[before], pod)
	}
	return &p
}

func (d *desk) want(p *v1alpha1.PodProgress, millionths int64) {
	d.Helper()
	if p == nil || p.DoneMillionths == nil || *p.DoneMillionths != millionths {
		d.Errorf("the door heard %+v, want %d millionths", p, millionths)
	}
}

func TestListening(t *testing.T) {
	d := newDesk(t)
	if p := d.after(0, "a"); p != nil {
		t.Errorf("of no pod the door heard %+v", p)
	}
	d.writes("a", "1/4 saved=true")
	p := d.after(time.Second, "a")
	d.want(p, 250_000)
	if !p.SaysSaved || p.SavedTime == nil {
		t.Errorf("of its save the door heard %+v", p)
	}
	if p := d.after(time.Minute, "a"); p != nil {
		t.Errorf("of nothing new the door heard %+v", p)
	}
	// What follows at once is told when its turn comes.
	d.writes("a", "2/4")
	d.want(d.after(time.Second, "a"), 500_000)
	d.writes("a", "3/4")
	if p := d.after(time.Second, "a"); p != nil {
		t.Errorf("a second later the door heard %+v", p)
	}
	d.want(d.after(15*time.Second, "a"), 750_000)
	// A door that does not answer is told again.
	d.writes("a", "nonsense")
	d.closed = true
	if p := d.after(time.Minute, "a"); p != nil {
		t.Errorf("a closed door heard %+v", p)
	}
	d.closed = false
	if p := d.after(time.Second, "a"); p == nil || !strings.Contains(p.Problem, "nonsense") || *p.DoneMillionths != 750_000 {
		t.Errorf("of nonsense the door heard %+v", p)
	}
	// What a pod said last is told when it is gone, and it is forgotten.
	d.writes("a", "4/4")
	if p := d.after(time.Second, "a"); p != nil {
		t.Errorf("a second later the door heard %+v", p)
	}
	if err := os.RemoveAll(filepath.Join(d.dir, "pods", "a")); err != nil {
		t.Fatal(err)
	}
	d.want(d.after(time.Second, "a"), 1_000_000)
	if len(d.listener.pods) != 0 {
		t.Errorf("%d pods are remembered", len(d.listener.pods))
	}
}

// What stands in the folder's place, or in the file's, leads nowhere else.
func TestTraps(t *testing.T) {
	d := newDesk(t)
	secret := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(secret, []byte("0.5"), 0o600); err != nil {
		t.Fatal(err)
	}
	for pod, make := range map[string]func(folder string) error{
		"linked-folder": func(folder string) error { return os.Symlink(filepath.Dir(secret), folder) },
		"linked-file": func(folder string) error {
			return errors.Join(os.Mkdir(folder, 0o755), os.Symlink(secret, filepath.Join(folder, "report")))
		},
		"a-file": func(folder string) error { return os.WriteFile(folder, []byte("0.5"), 0o600) },
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(d.folder(pod)), 0o755), make(d.folder(pod))); err != nil {
			t.Fatal(err)
		}
	}
	p := d.after(time.Second, "linked-file")
	if p == nil || p.DoneMillionths != nil || !strings.Contains(p.Problem, "a symbolic link") || len(d.heard[0]) != 1 {
		t.Errorf("the door heard %+v", d.heard)
	}
}

// An agent is believed of the pods on its node that may report.
func TestTheScribe(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	pod := func(name, node, gang, volume string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}}
		p.Spec.NodeName, p.Spec.Volumes = node, []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if gang != "" {
			p.Labels = map[string]string{v1alpha1.LabelGang: gang}
		}
		return p
	}
	here, elsewhere := pod("here", "one", "g", v1alpha1.ProgressVolume), pod("elsewhere", "two", "g", v1alpha1.ProgressVolume)
	foreign, without := pod("foreign", "one", "", v1alpha1.ProgressVolume), pod("without", "one", "g", "other")
	api := fake.NewClientBuilder().WithObjects(here, elsewhere, foreign, without).WithStatusSubresource(here).
		WithIndex(&corev1.Pod{}, ByNode, IndexByNode).Build()
	scribe := &Scribe{Pods: api, API: api, Now: func() time.Time { return now }}
	done, at := int64(250_000), metav1.NewMicroTime(now)
	said := map[types.UID]v1alpha1.PodProgress{"uid-gone": {DoneMillionths: &done, ReportTime: &at}}
	for _, p := range []*corev1.Pod{here, elsewhere, foreign, without} {
		said[p.UID] = v1alpha1.PodProgress{DoneMillionths: &done, ReportTime: &at}
	}
	if err := scribe.Take(t.Context(), "one", said); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*corev1.Pod{here, elsewhere, foreign, without} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		if got, told := bulletin.Read(p); told != (p == here) || told && *got.DoneMillionths != done {
			t.Errorf("on %s is written %+v", p.Name, p.Status.Conditions)
		}
	}
	if len(here.Status.Conditions) != 2 || here.Status.Conditions[0].Type != corev1.PodReady && here.Status.Conditions[1].Type != corev1.PodReady {
		t.Errorf("the kubelet's condition is lost: %+v", here.Status.Conditions)
	}
	// The same again costs no write; what makes no sense is not written.
	before := here.ResourceVersion
	too := int64(2_000_000)
	for _, p := range []v1alpha1.PodProgress{said[here.UID], {DoneMillionths: &too, ReportTime: &at, Problem: strings.Repeat("x", 5000)}} {
		if err := scribe.Take(t.Context(), "one", map[types.UID]v1alpha1.PodProgress{here.UID: p}); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(here), here); err != nil {
			t.Fatal(err)
		}
		if p.Problem == "" && here.ResourceVersion != before {
			t.Error("the same was written again")
		}
	}
	if got, _ := bulletin.Read(here); got.DoneMillionths != nil || len(got.Problem) > 1100 {
		t.Errorf("what makes no sense was written: %+v", got)
	}
}
