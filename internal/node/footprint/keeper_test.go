package footprint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/muster-dev/muster/internal/room"
)

// TestDecide: a user over the quota loses the largest pod; on a short disk the user with the most files
// does, unless another is over the quota.
func TestDecide(t *testing.T) {
	loud := Usage{Bytes: 90, Pods: map[string]int64{"a": 30, "b": 50, "none": 0}}
	quiet := Usage{Bytes: 20, Pods: map[string]int64{"c": 20}}
	for name, c := range map[string]struct {
		users map[uint32]Usage
		quota int64
		short int64
		want  []eviction
	}{
		"room":                   {map[uint32]Usage{1: loud, 2: quiet}, 100, 0, nil},
		"over the quota":         {map[uint32]Usage{1: loud, 2: quiet}, 80, 0, []eviction{{1, "b", false}}},
		"both":                   {map[uint32]Usage{1: loud, 2: quiet}, 10, 1, []eviction{{1, "b", false}, {2, "c", false}}},
		"too many files":         {map[uint32]Usage{2: {Bytes: 1, Partial: true, Pods: quiet.Pods}}, 0, 0, []eviction{{2, "c", false}}},
		"no quota":               {map[uint32]Usage{1: loud}, 0, 0, nil},
		"a short disk":           {map[uint32]Usage{1: loud, 2: quiet}, 100, 1, []eviction{{1, "b", true}}},
		"short, without quota":   {map[uint32]Usage{1: loud, 2: quiet}, 0, 1, []eviction{{1, "b", true}}},
		"short, by claims alone": {map[uint32]Usage{1: {Bytes: 500}, 2: quiet}, 0, 1, []eviction{{2, "c", true}}},
		"short, by small pods":   {map[uint32]Usage{1: loud, 2: quiet}, 0, 51, nil},
		"short, nothing runs":    {map[uint32]Usage{1: {Bytes: 500}}, 0, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, decide(c.users, c.quota, c.short), cmp.AllowUnexported(eviction{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got := loud.active([]string{"a", "gone"})
	if diff := cmp.Diff(Usage{Bytes: 40, Pods: map[string]int64{"a": 30}}, got); diff != "" {
		t.Errorf("of running pods: %s", diff)
	}
}

// disk is a disk of users that a test fills.
type disk struct {
	mu      sync.Mutex
	usage   map[uint32]Usage
	err     error
	short   int64
	evicted []string
	calls   int
}

func (d *disk) keeper(quota int64) *Keeper {
	return New(Options{
		Users: func() ([]uint32, error) { return []uint32{1001, 1002}, nil },
		Measure: func(_ context.Context, uid uint32) (Usage, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.calls++
			return d.usage[uid], d.err
		},
		Quota: quota, Short: func() int64 { return d.short }, Running: func(uint32) []string { return []string{"pod-1001", "pod-1002"} },
		Evict: func(pod, message string, short bool) {
			d.evicted = append(d.evicted, fmt.Sprint(pod, " ", short, ": ", message))
			uid := map[string]uint32{"pod-1001": 1001, "pod-1002": 1002}[pod]
			d.usage[uid] = Usage{}
		},
		Name:  func(uid uint32) string { return map[uint32]string{1001: "ann", 1002: "uid 1002"}[uid] },
		Clock: clock.RealClock{},
	})
}

func used(pod string, bytes int64) Usage {
	return Usage{Bytes: bytes, Pods: map[string]int64{pod: bytes}}
}

// run runs a keeper for a while of a made-up clock.
func run(t *testing.T, k *Keeper, during func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	synctest.Wait()
	during()
	cancel()
	<-done
}

// TestQuotaOfAUser: a user over the quota loses a pod and gets no new ones until the files are gone, and
// another user notices nothing.
func TestQuotaOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{usage: map[uint32]Usage{1001: used("pod-1001", 3<<30), 1002: used("pod-1002", 1<<30)}}
		k := d.keeper(2 << 30)
		run(t, k, func() {
			want := "the files of ann in Muster's folder have 3Gi, and 2Gi are allowed: delete jobs and claims"
			if got := k.Refusal(1001); !strings.HasPrefix(got, want) {
				t.Errorf("%q", got)
			}
			if got := k.Refusal(1002) + k.Refusal(7); got != "" {
				t.Errorf("others are refused: %q", got)
			}
			time.Sleep(2 * every)
			synctest.Wait()
			if diff := cmp.Diff([]string{"pod-1001 false: the files of ann in Muster's folder have 3Gi, and 2Gi are allowed; this pod has the most of them"}, d.evicted); diff != "" {
				t.Error(diff)
			}
			time.Sleep(2 * every)
			synctest.Wait()
			if got := k.Refusal(1001); got != "" {
				t.Errorf("the files are gone: %q", got)
			}
			before := d.calls
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if calls := d.calls - before; calls < 10 || calls > 24 {
				t.Errorf("%d measurements of two users in 10 minutes", calls)
			}
		})
	})
}

// TestShortDisk: on a short disk the user with the most files loses a pod at once, below the quota, too.
func TestShortDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{usage: map[uint32]Usage{1001: used("pod-1001", 3<<30), 1002: used("pod-1002", 1<<30)}}
		k := d.keeper(0)
		run(t, k, func() {
			time.Sleep(every)
			synctest.Wait()
			d.short = 1
			time.Sleep(every)
			synctest.Wait()
			d.short = 0
			time.Sleep(time.Minute)
			synctest.Wait()
			want := "pod-1001 true: the disk of Muster is almost full, and of all users ann has the most files of running jobs: 3Gi; this pod has the most of them"
			if diff := cmp.Diff([]string{want}, d.evicted); diff != "" {
				t.Error(diff)
			}
		})
	})
}

// TestFilesThatCannotBeMeasured: a user who holds up the measurements gets no new pods.
func TestFilesThatCannotBeMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errors.New("the process does not answer")}
		k := d.keeper(1)
		run(t, k, func() {
			if got := k.Refusal(1002); got != "" {
				t.Errorf("after one: %q", got)
			}
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			if got := k.Refusal(1002); !strings.HasPrefix(got, "the files of uid 1002 in Muster's folder could not be measured ") {
				t.Errorf("%q", got)
			}
		})
	})
}

func TestShort(t *testing.T) {
	const inodes = 1 << 20
	for name, c := range map[string]struct {
		size  int64
		space room.Space
		want  int64
	}{
		"a small disk":           {1 << 30, room.Space{Free: 300 << 20, Inodes: inodes}, 0},
		"a small disk, short":    {1 << 30, room.Space{Free: 200 << 20, Inodes: inodes}, 64 << 20},
		"a disk of 100 GB":       {100 << 30, room.Space{Free: 6 << 30, Inodes: inodes}, 0},
		"a disk of 100 GB short": {100 << 30, room.Space{Free: 4 << 30, Inodes: inodes}, 5 << 28},
		"a large disk":           {100 << 40, room.Space{Free: 17 << 30, Inodes: inodes}, 0},
		"few inodes":             {100 << 30, room.Space{Free: 50 << 30, Inodes: 3000}, 4 << 20},
		"inodes without a limit": {100 << 30, room.Space{Free: 50 << 30, Inodes: -1}, 0},
	} {
		if got := short(c.size, c.space); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
