package footprint

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
)

const (
	// every is the time between two looks at the disk.
	every = 2 * time.Second
	// rest is the default of Options.Rest. The time between two measurements is pause times the length of
	// the last one at least: a large tree is not walked all the time.
	rest  = time.Minute
	pause = 20
	// limit is the longest time of one measurement: its user can stop the process that measures.
	limit = 5 * time.Minute
	// atOnce is the number of users that are measured at once.
	atOnce = 8
	// blind is how many measurements in a row may fail before the user gets no new pods.
	blind = 3
)

// Options set up a [Keeper]. All but Quota and Log are required.
type Options struct {
	// Users lists the users that have files.
	Users func() ([]uint32, error)
	// Measure measures the files of a user.
	Measure func(ctx context.Context, uid uint32) (Usage, error)
	// Quota is the most that the files of a user may need, in bytes. 0: only the space of the disk counts.
	Quota int64
	// Short is 0, or on a disk that is short of space the least bytes of a pod whose end helps.
	Short func() int64
	// Running lists the UIDs of the pods of a user that run.
	Running func(uid uint32) []string
	// Evict stops a pod with a message, at once if the disk is short of space.
	Evict func(pod, message string, short bool)
	// Rest is the shortest time between two measurements of a user. Default: a minute.
	Rest time.Duration
	// Name is the login of a user.
	Name func(uid uint32) string
	// Clock is the clock.
	Clock clock.WithTicker
	// Log gets a line for each pod that is stopped. Default: none.
	Log *slog.Logger
}

// Keeper keeps users within the quota. Its methods may be called concurrently.
type Keeper struct {
	o     Options
	group errgroup.Group

	mu    sync.Mutex
	users map[uint32]*seen
}

// seen is what was last measured of a user.
type seen struct {
	usage    Usage
	failures int
	err      error
	next     time.Time
	busy     bool
	// fresh is true for a usage that no pod was stopped for yet.
	fresh bool
}

// New returns a keeper; [Keeper.Run] starts it.
func New(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rest <= 0 {
		o.Rest = rest
	}
	k := &Keeper{o: o, users: map[uint32]*seen{}}
	k.group.SetLimit(atOnce)
	return k
}

// Run measures until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := k.o.Clock.NewTicker(min(every, k.o.Rest))
	defer tick.Stop()
	defer func() { _ = k.group.Wait() }()
	for {
		k.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

// look begins measurements that are due, and stops pods by those that have ended.
func (k *Keeper) look(ctx context.Context) {
	users, err := k.o.Users()
	if err != nil {
		k.o.Log.Warn("listing the folders of users", "error", err)
	}
	short := k.o.Short()
	for _, uid := range users {
		s := k.begin(uid, short > 0)
		if s != nil && !k.group.TryGo(func() error { k.measure(ctx, uid, s); return nil }) {
			k.mu.Lock()
			s.busy = false
			k.mu.Unlock()
		}
	}
	k.evict(short)
}

// begin marks a user whose measurement is due; nil: it is not. On a short disk it is always.
func (k *Keeper) begin(uid uint32, short bool) *seen {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.users[uid]
	if s == nil {
		s = &seen{}
		k.users[uid] = s
	}
	if s.busy || !short && k.o.Clock.Now().Before(s.next) {
		return nil
	}
	s.busy = true
	return s
}

func (k *Keeper) measure(ctx context.Context, uid uint32, s *seen) {
	began := k.o.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	usage, err := k.o.Measure(ctx, uid)
	cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.o.Clock.Now()
	s.busy, s.next = false, now.Add(max(k.o.Rest, pause*now.Sub(began)))
	if s.err = err; err != nil {
		s.failures++
		return
	}
	s.usage, s.failures, s.fresh = usage, 0, true
}

// evict stops pods. A user loses the next one only after a further measurement.
func (k *Keeper) evict(short int64) {
	k.mu.Lock()
	users := map[uint32]Usage{}
	for uid, s := range k.users {
		if s.fresh {
			users[uid] = s.usage
		}
	}
	k.mu.Unlock()
	for uid, u := range users {
		users[uid] = u.active(k.o.Running(uid))
	}
	for _, e := range decide(users, k.o.Quota, short) {
		k.mu.Lock()
		s := k.users[e.uid]
		s.fresh, s.next = false, time.Time{}
		message := k.over(e.uid, s.usage) + "; this pod has the most of them"
		if e.short {
			message = fmt.Sprintf("the disk of Muster is almost full, and of all users %s has the most files of running jobs: %s; this pod has the most of them",
				k.o.Name(e.uid), size(users[e.uid].Bytes))
		}
		k.mu.Unlock()
		k.o.Log.Warn("a pod is stopped for its files", "uid", e.uid, "pod", e.pod, "message", message)
		k.o.Evict(e.pod, message, short > 0)
	}
}

// Refusal is why a user gets no new pods; empty: nothing is against it.
func (k *Keeper) Refusal(uid uint32) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.users[uid]
	switch {
	case s == nil:
		return ""
	case s.failures >= blind:
		return fmt.Sprintf("the files of %s in Muster's folder could not be measured %d times: %v; end the processes that hold them up", k.o.Name(uid), s.failures, s.err)
	case s.usage.over(k.o.Quota):
		return k.over(uid, s.usage) + ": delete jobs and claims that are not needed any more, or ask an administrator for more (quotas.files in config.yaml)"
	}
	return ""
}

// over says how much a user has.
func (k *Keeper) over(uid uint32, u Usage) string {
	if u.Partial {
		return fmt.Sprintf("the files of %s in Muster's folder are too many to be counted, or lie too deep", k.o.Name(uid))
	}
	return fmt.Sprintf("the files of %s in Muster's folder have %s, and %s are allowed", k.o.Name(uid), size(u.Bytes), size(k.o.Quota))
}

// size writes bytes as "1.5Gi".
func size(bytes int64) string {
	const mebi = 1 << 20
	if bytes > mebi {
		bytes -= bytes % mebi
	}
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}
