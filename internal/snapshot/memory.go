package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// What the scheduler learned is kept in this ConfigMap of Muster's namespace,
// under these keys: whoever explains reads it there, and a new scheduler goes on
// from it. To lose it costs only what was learned.
const (
	memoryName     = "muster-forecasts"
	calibrationKey = "calibration.json"
	mixKey         = "mix.json"
	usersKey       = "users.json"
)

// keepEvery is how often what was learned is written.
const keepEvery = 10 * time.Minute

// memory is what the scheduler learned and a new one goes on from.
type memory struct {
	// calibration is from forecasts, mix what usually comes, and users what they
	// used lately.
	calibration scheduling.Calibration
	mix         scheduling.Mix
	users       queue.Users
}

// keeping is how what was learned is kept.
type keeping struct {
	// recalled is what there was when the scheduler began.
	recalled memory
	// next is when it is written next, and kept what is written.
	next time.Time
	kept map[string]string
}

// recall reads what was learned before; nothing where there is nothing. What
// cannot be read of it counts as not learned.
func recall(ctx context.Context, r client.Reader, namespace string) (memory, error) {
	kept := &corev1.ConfigMap{}
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: memoryName}, kept)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return memory{}, nil
	}
	if err != nil {
		return memory{}, fmt.Errorf("reading configmap %s/%s: %w", namespace, memoryName, err)
	}
	return memory{
		calibration: decoded[scheduling.Calibration](kept.Data[calibrationKey]),
		mix:         decoded[scheduling.Mix](kept.Data[mixKey]),
		users:       decoded[queue.Users](kept.Data[usersKey]),
	}, nil
}

// decoded is what a text says; the zero value where it cannot be read.
func decoded[T any](text string) T {
	var out, none T
	if json.Unmarshal([]byte(text), &out) != nil {
		return none
	}
	return out
}

// encoded is what was learned, by key.
func (m memory) encoded() (map[string]string, error) {
	out := map[string]string{}
	for key, part := range map[string]any{calibrationKey: m.calibration, mixKey: m.mix, usersKey: m.users} {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encoding %s of what was learned: %w", key, err)
		}
		out[key] = string(text)
	}
	return out, nil
}

// remember reads what was learned before and goes on from it.
func (l *Loop) remember(ctx context.Context) error {
	learned, err := recall(ctx, l.options.Live, l.options.Namespace)
	if err != nil {
		return err
	}
	kept, err := learned.encoded()
	if err != nil {
		return err
	}
	l.keeping = keeping{recalled: learned, kept: kept}
	l.foresight = foresight{Foresight: scheduling.NewForesight(learned.calibration), asked: map[string]bool{}}
	return nil
}

// keep writes what was learned, if it is something else than what is written
// and that was written long enough ago.
func (l *Loop) keep(ctx context.Context, now time.Time) {
	k := &l.keeping
	if now.Before(k.next) && !now.Before(k.next.Add(-keepEvery)) {
		return
	}
	first := k.next.IsZero()
	k.next = now.Add(keepEvery)
	if first {
		return
	}
	learned := memory{calibration: l.foresight.Learned(), mix: l.core.Mix(), users: l.core.Users(conversion.Instant(now))}
	data, err := learned.encoded()
	if err != nil || maps.Equal(data, k.kept) {
		return
	}
	k.kept = data
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.options.Namespace, Name: memoryName}}
	l.report(ctx, "", func() {
		have := &corev1.ConfigMap{}
		err := l.options.Live.Get(ctx, client.ObjectKeyFromObject(object), have)
		switch {
		case apierrors.IsNotFound(err):
			object.Data = data
			err = l.options.Client.Create(ctx, object)
		case err == nil:
			have.Data = data
			err = l.options.Client.Update(ctx, have)
		}
		if err != nil && ctx.Err() == nil {
			l.options.Log.Error(err, "keeping what was learned; it is written again later", "configmap", l.options.Namespace+"/"+memoryName)
		}
	})
}
