//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestRequestsOfAJob counts what one job asks of the API server from its
// creation until all of it runs. However fast the machine, the number must not
// grow unnoticed: every request is time before the last process starts.
func TestRequestsOfAJob(t *testing.T) {
	m, err := harness.Up(t.Context(), t.TempDir(), "--tier", "plain", "--simulate-gpus", "8xA100")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	// The first job of a Muster also asks for what is asked once.
	countRequests(t, m, "first", 1, 0)
	for _, tt := range []struct {
		name        string
		workers, ps int32
	}{{"five", 3, 2}, {"hundred", 100, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			asked, took := countRequests(t, m, tt.name, tt.workers, tt.ps)
			checkRequests(t, asked, took, int(tt.workers+tt.ps), int(min(tt.workers, 1)+min(tt.ps, 1)))
		})
	}
}

// checkRequests compares with the most that a job may ask for. What also
// depends on how long it took has a rate.
func checkRequests(t *testing.T, asked map[string]int, took time.Duration, members, roles int) {
	t.Helper()
	per := func(d time.Duration) int { return int(took / d) }
	// A pod that has not started after 2 s says so, and later that it runs.
	statuses := members
	if took >= 2*time.Second {
		statuses = 2 * members
	}
	most := map[string]int{
		"POST trainingjobs":           1,
		"POST gangs":                  1,
		"POST placements":             1,
		"POST pods":                   members,
		"POST pods dry":               roles,
		"POST services":               1,
		"POST persistentvolumeclaims": 1,
		"POST persistentvolumes":      2, // one is in vain
		"PATCH pods/status":           statuses,
		"PATCH gangs/status":          6 + per(500*time.Millisecond),
		"PATCH trainingjobs/status":   10 + per(500*time.Millisecond),
		"GET gangs":                   3 + asked["PATCH gangs/status"], // once for each write that the cache has not shown yet
		"GET placements":              min(members, 6+per(32*time.Millisecond)),
		"GET leases":                  3 + per(time.Second),
		"GET pods":                    0,
		"GET nodes":                   1 + per(time.Second),
		"LIST pods":                   2 + per(time.Second),
		// Upstream's controller counts guarded pods one by one, as they come and
		// as they run.
		"PUT poddisruptionbudgets/status": 3*members + 5,
		"PATCH gangs":                     0,
		"PATCH pods":                      0,
	}
	for name, limit := range most {
		if asked[name] > limit {
			t.Errorf("%s: %d times within %s, at most %d are due", name, asked[name], took.Round(time.Millisecond), limit)
		}
	}
	if asked["POST pods"] != members || asked["POST placements"] != 1 {
		t.Errorf("%d pods and %d placements were written for one gang of %d", asked["POST pods"], asked["POST placements"], members)
	}
	rest, list := 0, []string{}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		list = append(list, fmt.Sprintf("%s %d", name, asked[name]))
		if _, known := most[name]; !known && name != "GET trainingjobs" { // the test's own
			rest += asked[name]
		}
	}
	if limit := 24 + 10*per(time.Second); rest > limit {
		t.Errorf("%d requests of other kinds, at most %d are due", rest, limit)
	}
	t.Logf("within %s: %s", took.Round(time.Millisecond), strings.Join(list, ", "))
}

// countRequests runs a job until all of it runs, and returns what was asked
// meanwhile, and how long that took.
func countRequests(t *testing.T, m *harness.Muster, name string, workers, ps int32) (map[string]int, time.Duration) {
	t.Helper()
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	for _, r := range []struct {
		name string
		n    int32
	}{{"worker", workers}, {"ps", ps}} {
		if r.n > 0 {
			role := v1alpha1.Role{Name: r.name, Replicas: &r.n, Command: []string{"sleep", "1000"}}
			role.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1m"), "memory": resource.MustParse("1Mi")}
			job.Spec.Roles = append(job.Spec.Roles, role)
		}
	}
	before, err := m.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := m.Client.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 2*time.Minute, "waiting until all of the job runs", func() error {
		if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Phase != v1alpha1.JobRunning {
			return fmt.Errorf("%s", job.Status.Phase)
		}
		return nil
	})
	took := time.Since(begin)
	after, err := m.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 2*time.Minute, "waiting until the job is gone", func() error {
		if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err == nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
	for key, n := range before {
		if after[key] -= n; after[key] == 0 {
			delete(after, key)
		}
	}
	return after, took
}
