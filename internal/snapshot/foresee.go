package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// What was learned from forecasts is kept in this ConfigMap of Muster's
// namespace, under this key: whoever explains reads it there, and a new
// scheduler goes on from it. To lose it costs only what was learned.
const (
	calibrationName = "muster-forecasts"
	calibrationKey  = "calibration.json"
)

// How much of the time forecasts may take, and how often what they taught is
// written.
const (
	foreseePart = 20
	keepEvery   = 10 * time.Minute
)

// foresight learns from how the scheduler's own forecasts came true: of what
// waits, one after the other is asked for, the newest first, and noted.
type foresight struct {
	*scheduling.Foresight
	// asked are the requests that were asked for.
	asked map[string]bool
	// next is when the next one may be, and keep when what was learned is
	// written next.
	next, keep time.Time
	// kept is what is written.
	kept string
}

// recallForesight reads what was learned before.
func (l *Loop) recallForesight(ctx context.Context) error {
	learned, err := calibration(ctx, l.options.Live, l.options.Namespace)
	if err != nil {
		return err
	}
	text, err := json.Marshal(learned)
	if err != nil {
		return fmt.Errorf("encoding what was learned from forecasts: %w", err)
	}
	l.foresight = foresight{Foresight: scheduling.NewForesight(learned), asked: map[string]bool{}, kept: string(text)}
	return nil
}

// calibration reads what was learned; nothing where there is none, or none that
// can be read.
func calibration(ctx context.Context, r client.Reader, namespace string) (scheduling.Calibration, error) {
	kept := &corev1.ConfigMap{}
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: calibrationName}, kept)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return scheduling.Calibration{}, nil
	}
	if err != nil {
		return scheduling.Calibration{}, fmt.Errorf("reading configmap %s/%s: %w", namespace, calibrationName, err)
	}
	var out scheduling.Calibration
	if text := []byte(kept.Data[calibrationKey]); json.Valid(text) && json.Unmarshal(text, &out) == nil {
		return out, nil
	}
	return scheduling.Calibration{}, nil
}

// foresee makes a forecast for one request that waits, if there is time for it.
// It returns when it wants to be called again; zero if nothing is left to do.
func (l *Loop) foresee(ctx context.Context, now time.Time) time.Time {
	f := &l.foresight
	l.keepForesight(ctx, now)
	if now.Before(f.next) {
		return f.next
	}
	uid, ok := l.core.Newest(instant(now), func(uid string) bool { return !f.asked[uid] })
	if !ok {
		return time.Time{}
	}
	began := time.Now()
	f.asked[uid] = true
	f.Forecast(l.core, uid, instant(now))
	f.next = now.Add(foreseePart * time.Since(began))
	return f.next
}

// started tells that a request is placed, or gone.
func (f *foresight) started(uid string, now time.Time) {
	f.Started(uid, instant(now))
	delete(f.asked, uid)
}

func (f *foresight) forget(uid string) {
	f.Forget(uid)
	delete(f.asked, uid)
}

// keepForesight writes what was learned, if it is something else than what is
// written and that was written long enough ago.
func (l *Loop) keepForesight(ctx context.Context, now time.Time) {
	f := &l.foresight
	if now.Before(f.keep) && !now.Before(f.keep.Add(-keepEvery)) {
		return
	}
	first := f.keep.IsZero()
	f.keep = now.Add(keepEvery)
	text, err := json.Marshal(f.Learned())
	if err != nil || first || string(text) == f.kept {
		return
	}
	f.kept = string(text)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.options.Namespace, Name: calibrationName}}
	l.background(ctx, func() {
		data := map[string]string{calibrationKey: string(text)}
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
			l.options.Log.Error(err, "keeping what was learned from forecasts; it is written again later", "configmap", v1alpha1.SystemNamespace+"/"+calibrationName)
		}
	})
}
