//go:build embedded

package controlplane_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// loudCallers are the requests that the loud user makes at once.
	loudCallers = 200
	// loudJobs is the number of jobs that the loud user may have in the test.
	loudJobs = 40
	// quietAsks is the number of requests of the quiet user.
	quietAsks = 40
	// patient is the longest time of a request of the quiet user. It is for a machine with other work: without
	// fairness the requests of the quiet user are refused, or wait for all of the loud one's.
	patient = 10 * time.Second
)

// TestALoudUser: while ada makes jobs and lists them without end, by 200 connections, no request of bea, nor
// of Muster's own parts, is refused or waits long; and ada's jobs end at ada's quota.
func TestALoudUser(t *testing.T) {
	t.Parallel()
	b := share(t)
	for _, uid := range []int{ada, bea} {
		if _, err := b.as(uid, nil).Discovery().ServerVersion(); err != nil {
			t.Fatal(err)
		}
	}
	few := fmt.Sprintf(`{"spec":{"hard":{"count/trainingjobs.muster.dev":"%d"}}}`, loudJobs)
	if _, err := client(t, b.plane).CoreV1().ResourceQuotas("u-1000").Patch(within(t), "muster-objects", types.MergePatchType, []byte(few), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const jobsOfBea = "/apis/muster.dev/v1alpha1/namespaces/u-1001/trainingjobs"
	eventually(t, func(ctx context.Context) error {
		_, err := try(ctx, b.as(bea, nil), http.MethodPost, jobsOfBea+dry, jobOf(""))
		return err
	})
	made, end := noise(t, b.as(ada, nil))
	quiet, parts := b.as(bea, nil), kubernetes.NewForConfigOrDie(b.plane.ManagerConfig())
	var took []time.Duration
	for i := range quietAsks {
		for name, ask := range map[string]func(context.Context) error{
			"bea's job": func(ctx context.Context) error {
				_, err := try(ctx, quiet, http.MethodPost, jobsOfBea+dry, jobOf(""))
				return err
			},
			"bea's list": func(ctx context.Context) error {
				_, err := try(ctx, quiet, http.MethodGet, jobsOfBea, "")
				return err
			},
			"the controllers": func(ctx context.Context) error {
				_, err := parts.CoreV1().Namespaces().Get(ctx, "u-1001", metav1.GetOptions{})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			began := time.Now()
			if err := ask(ctx); err != nil {
				t.Errorf("%s, request %d, after %v: %v", name, i, time.Since(began).Round(time.Millisecond), err)
			}
			cancel()
			took = append(took, time.Since(began))
		}
	}
	asked := end()
	slices.Sort(took)
	t.Logf("the quiet: median %v, longest %v; the loud user made %d requests", took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), asked)
	if got := made.Load(); got != loudJobs {
		t.Errorf("the loud user has %d jobs, want the %d of the quota", got, loudJobs)
	}
	if asked < loudCallers {
		t.Errorf("the loud user made %d requests", asked)
	}
	quota, err := client(t, b.plane).CoreV1().ResourceQuotas("u-1001").Get(within(t), "muster-objects", metav1.GetOptions{})
	if err != nil || quota.Spec.Hard.Pods().Value() == 0 {
		t.Errorf("the pods of bea are not bounded: %v, %v", quota, err)
	}
}

// noise makes requests until end is called, which returns their number. Made counts the jobs.
func noise(t *testing.T, set *kubernetes.Clientset) (made *atomic.Int64, end func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	made = &atomic.Int64{}
	var asked atomic.Int64
	var group sync.WaitGroup
	for i := range loudCallers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				asked.Add(1)
				if i%2 == 0 {
					_, _ = try(ctx, set, http.MethodGet, jobsOfAda, "")
					continue
				}
				job := strings.Replace(jobOf(""), "name: j", fmt.Sprintf("name: j-%d-%d", i, n), 1)
				_, err := try(ctx, set, http.MethodPost, jobsOfAda, job)
				switch {
				case err == nil:
					made.Add(1)
				case ctx.Err() == nil && !apierrors.IsForbidden(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsConflict(err) && !apierrors.IsServerTimeout(err):
					t.Logf("a loud request: %v", err)
				}
			}
		})
	}
	stop := func() int64 { cancel(); group.Wait(); return asked.Load() }
	t.Cleanup(func() { stop() })
	return made, stop
}
