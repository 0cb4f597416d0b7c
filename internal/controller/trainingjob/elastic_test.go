package trainingjob

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestElasticJobSaysHowLargeItIs follows a job of 1 to 8 workers: its gang may
// grow, what it has is told, and so is each replica that is given back, once.
func TestElasticJobSaysHowLargeItIs(t *testing.T) {
	made := newJob("a").role("worker", 8, "train.py").TrainingJob
	least := int32(1)
	made.Spec.Framework, made.Spec.Roles[0].MinReplicas = v1alpha1.FrameworkNone, &least
	w := newWorld(t, made)
	w.settle("a")
	g := w.gang("a").Spec
	if m := g.Roles[0].MinReplicas; m == nil || *m != 1 || g.Restart != v1alpha1.RestartScopeMember || g.Rendezvous != v1alpha1.FrameworkNone {
		t.Fatalf("%+v", g)
	}
	if ready := w.job("a").Status.Ready; ready != "0 of 1..8" {
		t.Errorf("before it starts: %s", ready)
	}
	role := v1alpha1.RoleStatus{Name: "worker", Wanted: 8, Running: 3, Min: 1}
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.Roles = v1alpha1.GangRunning, []v1alpha1.RoleStatus{role} })
	w.settle("a")
	if j := w.job("a"); j.Status.Ready != "3 of 1..8" || j.Status.Phase != v1alpha1.JobRunning || j.Status.Shrunk != 0 {
		t.Errorf("%+v", j.Status)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Shrunk, s.GivenBack = 2, []string{"worker-2 for nlp/bert", "worker-1 for nlp/bert"}
	})
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Shrunk, s.GivenBack = 3, append(s.GivenBack, "worker-2 for nlp/gpt") })
	w.settle("a")
	j := w.job("a")
	if j.Status.Shrunk != 3 || len(j.Status.GivenBack) != 3 || j.Status.Restarts != 0 || j.Status.Evictions != 0 {
		t.Errorf("%+v", j.Status)
	}
	told := strings.Join(w.told(), "\n")
	for _, want := range []string{"worker-2 is stopped to make room for nlp/bert", "worker-1 is stopped to make room for nlp/bert", "worker-2 is stopped to make room for nlp/gpt"} {
		if strings.Count(told, want) != 1 {
			t.Errorf("%q is not told once:\n%s", want, told)
		}
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct {
		want  string
		roles []v1alpha1.RoleStatus
	}{
		{"0/0", nil},
		{"2/3", []v1alpha1.RoleStatus{{Wanted: 1, Running: 1}, {Wanted: 2, Running: 1}}},
		{"3 of 2..9", []v1alpha1.RoleStatus{{Wanted: 1, Running: 1}, {Wanted: 8, Min: 1, Running: 2}}},
		{"8/8", []v1alpha1.RoleStatus{{Wanted: 8, Min: 8, Running: 8}}},
	} {
		if got := ready(c.roles); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
