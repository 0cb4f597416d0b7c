package dryrun

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// absent is a reader for pods that all name one Secret, which may be missing.
type absent struct{ there atomic.Bool }

// Missing implements References.
func (a *absent) Missing(context.Context, string, *corev1.PodSpec) (string, error) {
	if a.there.Load() {
		return "", nil
	}
	return "it names the Secret token, which does not exist", nil
}

// TestGangsThatWaitForAnObjectAreNoStorm makes gangs of one user name a Secret that is
// missing. The rate of dry runs is bounded for any number of gangs. Once the Secret exists,
// all of them are let in soon.
func TestGangsThatWaitForAnObjectAreNoStorm(t *testing.T) {
	for _, c := range []struct {
		gangs int
		// most is the most questions a second, once the gangs have waited for a minute, and
		// late the longest time until the gangs know that the Secret is there.
		most float64
		late time.Duration
	}{{1, 0.25, lastAsk + time.Second}, {200, repeats + 1, time.Minute + time.Second}} {
		t.Run(fmt.Sprint(c.gangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asks atomic.Int32
				gangs := map[types.UID]*v1alpha1.Gang{}
				var l *Answers
				secret := &absent{}
				l = New(asked(&asks, func(*corev1.Pod) error { return nil }), secret, conversion.GPUResources{v1alpha1.ResourceGPU}, func(uid types.UID) {
					l.Look(t.Context(), gangs[uid], time.Now())
				}, 8)
				for i := range c.gangs {
					// Each differs, so an answer for one is no answer for the others.
					g := twin(fmt.Sprintf("g%d", i), func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = fmt.Sprintf("image:%d", i) })
					gangs[g.UID] = g
				}
				known := func() (n int) {
					for _, g := range gangs {
						if answer, ready := l.Look(t.Context(), g, time.Now()); ready && answer.Missing == "" {
							n++
						}
					}
					return n
				}
				known()
				time.Sleep(3 * time.Minute)
				before := asks.Load()
				time.Sleep(10 * time.Minute)
				rate := float64(asks.Load()-before) / 600
				t.Logf("%d gangs: %d questions in the first 3 minutes, then %.2f a second", c.gangs, before, rate)
				if rate > c.most {
					t.Errorf("%.2f questions a second, want at most %.2f", rate, c.most)
				}
				if first := float64(before); first > 3*60*repeats+repeatBurst+2*float64(c.gangs) {
					t.Errorf("%.0f questions in the first 3 minutes", first)
				}
				secret.there.Store(true)
				time.Sleep(c.late)
				if n := known(); n != c.gangs {
					t.Errorf("%d of %d gangs know that the Secret is there after %s", n, c.gangs, c.late)
				}
				// The timers that are left end with the test.
				time.Sleep(2 * time.Minute)
				l.Wait()
			})
		})
	}
}
