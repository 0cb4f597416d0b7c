package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// checkEvery is how often what the core was told is compared with all there
// is.
const checkEvery = 10 * time.Minute

// tell tells the core what has changed since the last pass; all there is, the
// first time. It returns who wants nothing new to be started, if anybody does.
func (l *Loop) tell(ctx context.Context, now time.Time) (paused string) {
	for _, at := range l.mirror.ended() {
		if !l.begun || !l.core.Ended(string(at.gang), at.role, conversion.MemberIndex(at.index)) {
			l.mirror.touch(at.gang)
		}
	}
	t := l.take(ctx, now, !l.begun)
	update := t.update(now)
	update.Part.Quotas, update.QuotasChanged = l.countQuotas(&t, now)
	if l.begun {
		if from := l.growth.from(l.lessons.Open, now); !from.IsZero() {
			update.GrowFrom = conversion.Instant(from)
		}
		l.core.Apply(update)
	} else {
		l.core.RecallMix(l.keeping.recalled.mix)
		l.core.Sync(update.Part)
		l.core.Recall(memories(dereferenced(l.mirror.queueObjects())), l.keeping.recalled.users, conversion.Instant(now))
		l.keeping.recalled = memory{}
		l.begun, l.checked = true, now
	}
	l.history.learn(t.gangs, l.core)
	for _, uid := range t.ended {
		l.forget(uid)
	}
	if now.Sub(l.checked) >= checkEvery {
		l.checked = now
		if err := l.check(ctx, now); err != nil {
			l.options.Log.Error(err, "what the scheduler was told is mended")
		}
	}
	return t.paused
}

// take takes what has changed, or everything, with what is assumed over it.
func (l *Loop) take(ctx context.Context, now time.Time, all bool) taken {
	ahead := l.assumed.copy() // before the objects: see assumed
	t := l.mirror.take(ahead, all)
	for _, uid := range l.assumed.sinceCopied() {
		l.mirror.touch(uid) // it was taken with what was assumed before
	}
	l.heed(ctx, t.written)
	t.learn = func(g *v1alpha1.Gang) (dryrun.Answer, bool) { return l.learn(ctx, g, now) }
	t.mine, t.highest = l.mine, l.assumed.highestOf(t.gangs)
	return t
}

// check compares what the core was told, change by change, with all there is.
// Where they differ, which would be a mistake in this package, it says so, and
// shows the core everything.
func (l *Loop) check(ctx context.Context, now time.Time) error {
	t := l.take(ctx, now, true)
	s := t.update(now).Part
	s.Quotas, _ = l.countQuotas(&t, now)
	if t.fresh {
		// Something changed in this very moment, which is no mistake.
		l.core.Sync(s)
		l.checked = now.Add(time.Minute - checkEvery)
		return nil
	}
	differences := l.core.Differences(s, 8)
	if differences == nil {
		return nil
	}
	l.core.Sync(s)
	return fmt.Errorf("comparing the scheduler's state with the objects: %w", errors.New(strings.Join(differences, "; ")))
}

// forget drops what is kept for a gang or pod that is no more.
func (l *Loop) forget(uid types.UID) {
	l.lessons.Forget(uid)
	l.history.forget(uid)
	l.assumed.forget(uid)
	l.foresight.forget(string(uid))
	l.voice.Forget(uid)
	l.retries.Forget(uid)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.told, uid)
}
