package snapshot

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/scheduling"
)

// Options are what a Loop needs.
type Options struct {
	// Cache is the informer cache; whoever made it starts it.
	Cache cache.Cache
	// Client writes. Its rate limit bounds everything: give it none.
	Client client.Client
	// Live reads past the cache, from the API server itself.
	Live client.Reader
	// Namespace is where the epoch is kept; created if absent. Default:
	// muster-system.
	Namespace string
	// Identity names this process in the epoch's lease. Default: "muster".
	Identity string
	// Alone says that no other loop can be alive: this process holds the lock
	// of the machine. Then nothing is waited for at the start. Safety does not
	// depend on it.
	Alone bool
	// LeaseDuration is for how long another loop waits after this one's last
	// sign of life. Default: 15 s; at least a second.
	LeaseDuration time.Duration
	// LongestRequest bounds each write. Default: 10 s.
	LongestRequest time.Duration
	// GPUResources are the extended resources that count GPUs on nodes that do
	// not name theirs. Default: nvidia.com/gpu.
	GPUResources []corev1.ResourceName
	// Signs tell that a node is about to go, and takes nothing new. Default:
	// [departure.Known].
	Signs departure.Signs
	// DefaultScheduler makes the loop bind pods of default-scheduler too,
	// where there is no other scheduler.
	DefaultScheduler bool
	// ReadsContents reports that Live may read Secrets and ConfigMaps in every namespace, so that pods
	// which name others get no place.
	ReadsContents bool
	// Location is the time zone of the times in messages. Default: local.
	Location *time.Location
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Passed is how much time has passed since some moment, by a clock that
	// nobody sets; with Now it tells time that passed from a clock that was set.
	// Default: the system's monotonic clock; if Now is given, Now.
	Passed func() time.Duration
	// Log receives what no caller can: errors of writes made in the
	// background. Default: discarded.
	Log logr.Logger
	// Concurrency bounds the writes in flight. Default: 64.
	Concurrency int
	// Observer is told how the loop does. Default: nobody.
	Observer Observer
	// Events writes events about lone pods. Nil: there are none.
	Events events.EventRecorder
	// Wanting is told which gangs wait, and which of them would start if nodes
	// came, both in their order, whenever that was worked out. It must not block,
	// and the gangs are not to be changed. Nil: nobody wants to know.
	Wanting func(waiting, wanting []*v1alpha1.Gang)
	// Ahead is told who starts before long. Nil: nobody wants to know.
	Ahead Ahead
	// Names are those that reasons and orders in the objects of a namespace have for
	// others. Nil: the real ones, where all namespaces are one user's.
	Names Names
}

// Observer is told how a loop does. Its methods are called from passes and must
// not block.
type Observer interface {
	// Passed: a pass was made, and took so long; writes are not in it. So many
	// GPUs can be given out at all, and so much of them is free, in thousandths.
	Passed(took time.Duration, gpus, freeMilli int64)
	// Decided: n decisions of a kind were made: "plan", "eviction", "growth" or
	// "return".
	Decided(kind string, n int)
	// Started: a gang or pod with so many whole GPUs was planned for the first
	// time, after it had waited.
	Started(queue string, gpus int64, waited time.Duration)
	// Waiting: so many gangs and pods wait, by queue and kind of reason.
	Waiting(now map[[2]string]int)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Passed(time.Duration, int64, int64)   {}
func (nobody) Decided(string, int)                  {}
func (nobody) Started(string, int64, time.Duration) {}
func (nobody) Waiting(map[[2]string]int)            {}

// complete fills in the defaults, or says what is missing.
func (o Options) complete() (Options, error) {
	if o.Cache == nil || o.Client == nil || o.Live == nil {
		return o, errors.New("making the scheduling loop: Cache, Client and Live must be given")
	}
	if o.Namespace == "" {
		o.Namespace = "muster-system"
	}
	if o.Identity == "" {
		o.Identity = "muster"
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Passed == nil {
		begin, now := time.Now(), o.Now
		if now == nil {
			now = time.Now
		} else {
			begin = now()
		}
		o.Passed = func() time.Duration { return now().Sub(begin) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 64
	}
	if o.Signs == nil {
		o.Signs = departure.Known()
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return o, nil
}

// Clock returns the clock by which reasons are rendered in a time zone: the
// time of day for today, else with the date. Now is the moment of reading.
func Clock(now time.Time, loc *time.Location) scheduling.Clock {
	return func(at scheduling.Instant) string {
		t := time.Unix(0, int64(at)).In(loc)
		ty, tm, td := t.Date()
		ny, nm, nd := now.In(loc).Date()
		if ty == ny && tm == nm && td == nd {
			return t.Format("15:04")
		}
		return t.Format("2006-01-02 15:04")
	}
}
