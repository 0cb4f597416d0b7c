package door

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

const mark = "X-Muster-Shift"

// A worker is heard by way of the agent of its node, about its own work, where this
// replica gives out datums.
func TestShifts(t *testing.T) {
	h := open(t, false)
	role := "worker"
	pod := func(name, uid, node, driver, work string) {
		h.must(h.api.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ada", Name: name, UID: types.UID(uid), CreationTimestamp: metav1.Unix(42, 0),
				Labels: map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelIndex: "3", v1alpha1.LabelAttempt: "5"},
			},
			Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "stage", VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: driver, VolumeAttributes: map[string]string{"work": work, shift.JobAttribute: "of " + uid}},
			}}}},
		}))
	}
	pod("one", "u1", "node-1", v1alpha1.StageDriver, "run.stage")
	pod("far", "u2", "node-2", v1alpha1.StageDriver, "run.stage")
	role = ""
	pod("plain", "u4", "node-1", v1alpha1.StageDriver, "run.stage")
	pod("code", "u3", "node-1", v1alpha1.CodeDriver, "run.stage")
	ask := func(who, namespace, path string) (int, string) {
		out := httptest.NewRecorder()
		in := httptest.NewRequest(http.MethodPut, "http://foreman/ignored?worker=w", strings.NewReader("a stream"))
		in.Header.Set("Authorization", "Bearer by the agent")
		for _, name := range []string{shift.MemberHeader, shift.PodHeader, shift.BornHeader, shift.JobHeader, shift.AttemptHeader} {
			in.Header.Set(name, "what it says of itself")
		}
		h.as(who).Pass(out, in.WithContext(t.Context()), namespace, path, mark)
		return out.Code, out.Body.String()
	}
	if status, says := ask("node", "ada", "/pods/u1/shift/run.stage"); status != http.StatusServiceUnavailable || !strings.Contains(says, "gives out no datums") {
		t.Errorf("where another replica gives them out: %d %s", status, says)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/shift/", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set(mark, "1")
		w.WriteHeader(http.StatusGone)
		_, _ = fmt.Fprintf(w, "%s %s %s %s; %s, %s, %s, %s", r.Method, r.URL.Path, r.URL.RawQuery, text, r.Header.Get(shift.MemberHeader), r.Header.Get(shift.PodHeader), r.Header.Get(shift.BornHeader), r.Header.Get(shift.JobHeader)+r.Header.Get(shift.AttemptHeader))
	})
	h.shift.Store(mux)
	for name, c := range map[string]struct {
		who, namespace, path string
		status               int
		says                 string
	}{
		"its own":            {"node", "ada", "/pods/u1/shift/run.stage", http.StatusGone, "PUT /shift/run.stage worker=w a stream; worker/3, u1, 42, of u15"},
		"no member":          {"node", "ada", "/pods/u4/shift/run.stage/part", http.StatusGone, "PUT /shift/run.stage/part worker=w a stream; , , , "},
		"a datum":            {"node", "ada", "/pods/u1/shift/run.stage/datums/7", http.StatusGone, "PUT /shift/run.stage/datums/7 worker=w a stream"},
		"another work":       {"node", "ada", "/pods/u1/shift/run.other", http.StatusServiceUnavailable, "computes run.other"},
		"another node":       {"node", "ada", "/pods/u2/shift/run.stage", http.StatusServiceUnavailable, "computes run.stage"},
		"another namespace":  {"node", "bob", "/pods/u1/shift/run.stage", http.StatusServiceUnavailable, "no pod of namespace bob"},
		"another volume":     {"node", "ada", "/pods/u3/shift/run.stage", http.StatusServiceUnavailable, "computes run.stage"},
		"no pod":             {"node", "ada", "/pods/u9/shift/run.stage", http.StatusServiceUnavailable, "computes run.stage"},
		"who is no agent":    {"ada", "ada", "/pods/u1/shift/run.stage", http.StatusServiceUnavailable, "by way of the agent"},
		"who shows no token": {"", "ada", "/pods/u1/shift/run.stage", http.StatusServiceUnavailable, "401"},
	} {
		if status, says := ask(c.who, c.namespace, c.path); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s: %d %s, want %d %s", name, status, says, c.status, c.says)
		}
	}
}
