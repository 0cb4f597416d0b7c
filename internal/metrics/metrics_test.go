package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/config"
)

func TestResourceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/default/pods":                                 "pods",
		"/api/v1/namespaces/default/pods/a":                               "pods",
		"/api/v1/namespaces/default/pods/a/binding":                       "pods/binding",
		"/api/v1/namespaces/default":                                      "namespaces",
		"/api/v1/nodes/a/status":                                          "nodes/status",
		"/apis/muster.dev/v1alpha1/namespaces/team/gangs/a/status":        "gangs/status",
		"/apis/muster.dev/v1alpha1/queues/vision":                         "queues",
		"/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/it": "leases",
		"/healthz": "other",
		"/":        "other",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func newRecorder(t *testing.T) (*Recorder, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	r, err := NewRecorder(registry)
	if err != nil {
		t.Fatal(err)
	}
	return r, registry
}

// TestWritesAreSeenOnTheirWay sends requests to a server: writes are counted by
// what they are about, reads and dry runs are not, failures by their code.
func TestWritesAreSeenOnTheirWay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, "/taken") {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer server.Close()
	r, registry := newRecorder(t)
	client := &http.Client{Transport: r.Transport(http.DefaultTransport)}
	for _, send := range [][2]string{
		{http.MethodPost, "/api/v1/namespaces/a/pods"}, {http.MethodPost, "/api/v1/namespaces/b/pods"},
		{http.MethodPost, "/api/v1/namespaces/a/pods?dryRun=All"}, {http.MethodGet, "/api/v1/namespaces/a/pods"},
		{http.MethodPatch, "/apis/muster.dev/v1alpha1/namespaces/a/gangs/taken"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), send[0], server.URL+send[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	const want = `
# HELP muster_api_write_failures_total Writes to the API server that failed, by verb, resource and HTTP code; 0: there was no answer. Conflicts (409) are repeated and harmless in small numbers.
# TYPE muster_api_write_failures_total counter
muster_api_write_failures_total{code="409",resource="gangs",verb="patch"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "muster_api_write_failures_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(r.writes); n != 2 {
		t.Errorf("%d kinds of writes, want pods created and gangs patched", n)
	}
}

// TestWhoWaitsIsForgotten: what nobody waits for any more is no series.
func TestWhoWaitsIsForgotten(t *testing.T) {
	r, registry := newRecorder(t)
	r.Waiting(map[[2]string]int{{"vision", "ShortOfGPUs"}: 3, {"nlp", "Paused"}: 1})
	r.Waiting(map[[2]string]int{{"vision", "ShortOfGPUs"}: 2})
	const want = `
# HELP muster_waiting_gangs Gangs and lone pods that wait, by queue and kind of reason.
# TYPE muster_waiting_gangs gauge
muster_waiting_gangs{queue="vision",reason="ShortOfGPUs"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "muster_waiting_gangs"); err != nil {
		t.Error(err)
	}
}

func TestClass(t *testing.T) {
	for gpus, want := range map[int64]string{0: "0", 1: "1", 2: "2-7", 7: "2-7", 8: "8-63", 63: "8-63", 64: "64+", 4000: "64+"} {
		if got := class(gpus); got != want {
			t.Errorf("%d GPUs: %q, want %q", gpus, got, want)
		}
	}
}

// held makes a gang and its placement of members with two GPUs each.
func held(name, queue string, phase v1alpha1.GangPhase, members int32, done ...string) (*v1alpha1.Gang, *v1alpha1.Placement) {
	g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
	g.Spec.Queue, g.Status.Phase, g.Status.Done = queue, phase, done
	p := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name + "-1"}}
	p.Spec.GangUID = g.UID
	for i := range members {
		p.Spec.Add(v1alpha1.PlacedMember{Role: "worker", Index: i, GPUs: []string{"a", "b"}})
	}
	return g, p
}

// TestHoldings counts GPUs by queue and state, and adds up their seconds.
func TestHoldings(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	build := fake.NewClientBuilder().WithScheme(scheme)
	for _, g := range []struct {
		name, queue string
		phase       v1alpha1.GangPhase
		members     int32
		done        []string
	}{
		{"runs", "vision", v1alpha1.GangRunning, 4, []string{"worker-0"}},
		{"starts", "vision", v1alpha1.GangStarting, 1, nil},
		{"ends", "", v1alpha1.GangDraining, 2, nil},
	} {
		gang, placement := held(g.name, g.queue, g.phase, g.members, g.done...)
		build = build.WithObjects(gang, placement)
	}
	share, part := held("part", "vision", v1alpha1.GangRunning, 1)
	part.Spec.Members[0].GPUs, part.Spec.Members[0].Share = []string{"c"}, &v1alpha1.GPUShare{Milli: 250}
	reads, waits := held("reads", "vision", v1alpha1.GangStarting, 3)
	reads.Status.DataSince = &metav1.MicroTime{Time: time.Unix(990, 0)}
	_, orphan := held("gone", "vision", v1alpha1.GangRunning, 1)
	build = build.WithObjects(share, part, reads, waits, orphan)

	now := time.Unix(1000, 0)
	h := &Holdings{Cache: build.Build(), Now: func() time.Time { return now }}
	got, gangs, err := h.count(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := map[by]float64{{"vision", "running"}: 6.25, {"vision", "starting"}: 2, {"vision", "fetching"}: 6, {"default", "draining"}: 4}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(by{})); diff != "" {
		t.Error(diff)
	}
	if gangs[by{"vision", "Running"}] != 2 || gangs[by{"default", "Draining"}] != 1 {
		t.Errorf("gangs: %v", gangs)
	}
	h.add(got)
	now = now.Add(8 * time.Second)
	h.add(map[by]float64{{"vision", "running"}: 1})
	now = now.Add(2 * time.Second)
	sums := h.add(nil)
	if sums[by{"vision", "running"}] != 8*6.25+2 || sums[by{"default", "draining"}] != 32 {
		t.Errorf("GPU seconds: %v", sums)
	}
	now = now.Add(-time.Hour) // the clock was set back: a sum never falls
	if again := h.add(nil); again[by{"vision", "running"}] != 52 {
		t.Errorf("GPU seconds after the clock was set back: %v", again)
	}
}

var name = regexp.MustCompile(`\bmuster_[a-z_]+`)

// TestMonitoringNamesWhatThereIs reads the dashboard and the alert rules: every
// metric in them is one that is served.
func TestMonitoringNamesWhatThereIs(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if _, err := NewRecorder(registry); err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(&Holdings{})
	served := map[string]bool{}
	out := make(chan *prometheus.Desc, 64)
	registry.Describe(out)
	close(out)
	named := regexp.MustCompile(`fqName: "([^"]+)"`)
	for desc := range out {
		base := named.FindStringSubmatch(desc.String())[1]
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			served[base+suffix] = true
		}
	}
	for _, file := range []string{"monitoring/alerts.yaml", "monitoring/dashboard.json"} {
		data, err := config.Monitoring.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var any map[string]any
		if err := errors.Join(yaml.Unmarshal(data, &any)); err != nil || len(any) == 0 {
			t.Errorf("%s cannot be read: %v", file, err)
		}
		text, err := json.Marshal(any)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, metric := range found {
			if !served[metric] {
				t.Errorf("%s names %s, which is not served", file, metric)
			}
		}
	}
}
