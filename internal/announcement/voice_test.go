package announcement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// recorder keeps the events that it is given.
type recorder struct{ lines []string }

func (r *recorder) Eventf(about, _ runtime.Object, kind, reason, action, note string, args ...any) {
	r.lines = append(r.lines, strings.Join([]string{about.(*corev1.Pod).Name, kind, reason, action, fmt.Sprintf(note, args...)}, " | "))
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}}
}

// The events of one pod: one for each kind of reason, not for each text, and not more than
// one a minute.
func TestOnePod(t *testing.T) {
	r, now := &recorder{}, time.Unix(1e9, 0)
	v := New(r, func() time.Time { return now })
	p := pod("a")
	for _, step := range []struct {
		after     time.Duration
		kind, why string
	}{
		{0, "ShortOfGPUs", "needs 2 GPUs; 1 is free"},
		{5 * time.Second, "ShortOfGPUs", "needs 2 GPUs; none is free"},
		{10 * time.Second, "Behind", "waits behind team/b"},
		{time.Minute, "Behind", "waits behind team/c"},
		{10 * time.Minute, "Behind", "waits behind team/d"},
	} {
		now = now.Add(step.after)
		v.Waits(p, step.kind, step.why)
	}
	v.Bound(p, "node-1")
	want := []string{
		"a | Warning | FailedScheduling | Scheduling | needs 2 GPUs; 1 is free",
		"a | Warning | FailedScheduling | Scheduling | waits behind team/c",
		"a | Normal | Scheduled | Binding | Successfully assigned team/a to node-1",
	}
	if diff := cmp.Diff(want, r.lines); diff != "" {
		t.Error(diff)
	}
	if len(v.said) != 0 {
		t.Error("it keeps something of a pod that is bound")
	}
}

// A flood: a thousand pods wait, and their reason changes in every second. There are few events at
// any time, and each pod gets its own in the end.
func TestAFlood(t *testing.T) {
	r, now := &recorder{}, time.Unix(1e9, 0)
	v := New(r, func() time.Time { return now })
	const pods, seconds = 1000, 100
	for s := range seconds {
		before := len(r.lines)
		for i := range pods {
			v.Waits(pod(fmt.Sprint(i)), "ShortOfGPUs", fmt.Sprintf("needs 1 GPU; %d are held", s))
		}
		if n := len(r.lines) - before; n > burst || s > 0 && n > perSecond {
			t.Fatalf("%d events in second %d", n, s)
		}
		now = now.Add(time.Second)
	}
	about := map[string]int{}
	for _, line := range r.lines {
		name, _, _ := strings.Cut(line, " | ")
		about[name]++
	}
	if len(about) != pods || len(r.lines) != pods {
		t.Errorf("%d events of %d pods, want one of each of %d", len(r.lines), len(about), pods)
	}
}

// A reason that is too long for the API server is cut; a clock that is set back does not
// silence a pod.
func TestEdges(t *testing.T) {
	r, now := &recorder{}, time.Unix(1e9, 0)
	v := New(r, func() time.Time { return now })
	v.Waits(pod("a"), "x", strings.Repeat("ä", 1000))
	if note := r.lines[0][strings.LastIndex(r.lines[0], "| ")+2:]; len(note) > longestNote || !strings.HasSuffix(note, "ä...") {
		t.Errorf("%d bytes, %q", len(note), note[len(note)-8:])
	}
	now = now.Add(-time.Hour)
	v.Waits(pod("a"), "y", "y")
	if len(r.lines) != 2 {
		t.Error("silent since the clock was set back")
	}
	var none *Voice
	none.Waits(pod("a"), "x", "x")
	none.Bound(pod("a"), "n")
	none.Forget("a")
	if New(nil, nil) != nil {
		t.Error("a voice without a recorder")
	}
}
