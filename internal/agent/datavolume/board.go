package datavolume

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Crier is told how the volumes of the node's pods stand.
type Crier interface {
	// Arrivals says so, by the pods' UIDs. Of those that are returned it knows nothing
	// yet: they are to be said again.
	Arrivals(ctx context.Context, said map[types.UID]v1alpha1.PodData) (unknown []types.UID, err error)
}

const (
	// progressEvery is how often it is told how far a fetch is.
	progressEvery = 5 * time.Second
	// cryAgain is the pause after the crier could not be reached, unknownAgain that
	// after it did not know a pod, and cryWithin bounds one try.
	cryAgain     = 5 * time.Second
	unknownAgain = time.Second
	cryWithin    = 20 * time.Second
)

// standing is how one volume stands.
type standing struct {
	reason v1alpha1.DataReason
	text   string
	at     time.Time // mounted
}

// board has how all volumes stand, and what of that is not told yet.
type board struct {
	now  func() time.Time
	news chan struct{} // has something whenever there is something to be told

	mu   sync.Mutex
	pods map[string]map[string]standing
	told map[string]time.Time
	dirt map[string]bool
}

func newBoard(now func() time.Time) *board {
	return &board{now: now, news: make(chan struct{}, 1), pods: map[string]map[string]standing{}, told: map[string]time.Time{}, dirt: map[string]bool{}}
}

// mounted notes that a volume of a pod is.
func (b *board) mounted(pod, handle string, at time.Time) {
	b.set(pod, handle, standing{reason: v1alpha1.DataMounted, at: at})
}

// wait notes why one is not. How far a fetch is is told now and then.
func (b *board) wait(pod, handle string, reason v1alpha1.DataReason, text string) {
	b.set(pod, handle, standing{reason: reason, text: text})
}

func (b *board) set(pod, handle string, s standing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pods[pod] == nil {
		b.pods[pod] = map[string]standing{}
	}
	before := b.pods[pod][handle]
	if before == s {
		return
	}
	b.pods[pod][handle] = s
	if before.reason == s.reason && b.now().Sub(b.told[pod]) < progressEvery {
		return
	}
	b.told[pod] = b.now()
	b.soil(pod)
}

// soil notes that there is something to be told of a pod. The lock is held.
func (b *board) soil(pod string) {
	b.dirt[pod] = true
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// forget forgets a volume; of a pod without any nothing is told any more.
func (b *board) forget(pod, handle string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods[pod], handle)
	if len(b.pods[pod]) == 0 {
		delete(b.pods, pod)
		delete(b.told, pod)
		delete(b.dirt, pod)
	}
}

// take is what is to be told.
func (b *board) take() map[types.UID]v1alpha1.PodData {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[types.UID]v1alpha1.PodData{}
	for pod := range b.dirt {
		out[types.UID(pod)] = summary(b.pods[pod])
	}
	b.dirt = map[string]bool{}
	return out
}

// back notes that something could not be told of pods.
func (b *board) back(pods []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pod := range pods {
		if b.pods[string(pod)] != nil {
			b.soil(string(pod))
		}
	}
}

// gravity orders reasons: of several volumes the one with the greatest speaks for the
// pod.
var gravity = map[v1alpha1.DataReason]int{v1alpha1.DataMounted: 0, v1alpha1.DataFetching: 1, v1alpha1.DataRetrying: 2, v1alpha1.DataUnfit: 3, v1alpha1.DataLost: 4}

// summary is how the volumes of a pod stand, together.
func summary(volumes map[string]standing) v1alpha1.PodData {
	out := v1alpha1.PodData{Reason: v1alpha1.DataMounted}
	for _, handle := range slices.Sorted(maps.Keys(volumes)) {
		s := volumes[handle]
		if s.reason == v1alpha1.DataMounted {
			out.Mounted++
			if at := metav1.NewMicroTime(s.at); out.MountedTime == nil || out.MountedTime.Before(&at) {
				out.MountedTime = &at
			}
			continue
		}
		if gravity[s.reason] > gravity[out.Reason] {
			out.Reason, out.Message = s.reason, s.text
		}
	}
	return out
}

// deliver tells the crier what there is to tell until the context ends.
func (b *board) deliver(ctx context.Context, crier Crier, log *slog.Logger) {
	var later []types.UID
	again := time.NewTimer(0)
	defer again.Stop()
	silent := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			b.back(later)
			later = nil
			continue
		case <-b.news:
		}
		said := b.take()
		if len(said) == 0 {
			continue
		}
		within, cancel := context.WithTimeout(ctx, cryWithin)
		unknown, err := crier.Arrivals(within, said)
		cancel()
		pause := unknownAgain
		if err != nil {
			if !silent && ctx.Err() == nil {
				log.Warn("how the data of pods stands is not told; it is tried again", "error", err)
			}
			unknown, pause = slices.Collect(maps.Keys(said)), cryAgain
		}
		if silent = err != nil; len(unknown) > 0 {
			later = append(later, unknown...)
			again.Reset(pause)
		}
	}
}
