package stores

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// TestNamespacesShareNothing: what one namespace stored, the other does not get, by name or
// digest, and one that stores the same has its own.
func TestNamespacesShareNothing(t *testing.T) {
	r := newRig(t, Options{})
	p := snapshot(t, r.mine, "print(1)")
	must(t, r.send("u-1000", p))
	if !r.code("u-1000", p) || r.code("u-1001", p) || r.code("u-100", p) {
		t.Error("code is not that of one namespace")
	}
	must(t, r.send("u-1001", p))
	must(t, os.RemoveAll(filepath.Join(r.home, Folder, codeFolder, "u-1000")))
	r.open(Options{})
	if r.code("u-1000", p) || !r.code("u-1001", p) {
		t.Error("equal code is stored once")
	}
	commit := put(t, r.store("u-1000"), "a")
	if !reads(t, r.store("u-1000"), commit) || reads(t, r.store("u-1001"), commit) {
		t.Error("data is not that of one namespace")
	}
	results, err := r.stores.Results(t.Context(), "u-1000")
	must(t, err)
	if !reads(t, results, commit) {
		t.Error("results are in another store")
	}
	if _, err := r.stores.Store(t.Context(), "../u-1000"); err == nil {
		t.Error("a path is taken for a namespace")
	}
}

// TestLibrary: controllers are told about the code of the namespace of an owner alone.
func TestLibrary(t *testing.T) {
	r := newRig(t, Options{})
	p := snapshot(t, r.mine, "print(1)")
	must(t, r.send("u-1000", p))
	library := r.stores.Library()
	run(t, library.Run)
	for owner, want := range map[string]bool{"u-1000/job": true, "u-1001/job": false, "u-1000": true, "/u-1000": false} {
		for {
			got, err := library.Has(owner, p.Digest())
			if errors.Is(err, source.ErrAsked) {
				<-library.Changes()
				continue
			}
			if err != nil && owner != "/u-1000" || got != want {
				t.Errorf("%s: %v, %v", owner, got, err)
			}
			break
		}
	}
}

// scripts serves one script, whoever asks.
type scripts struct{}

func (scripts) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("print(1)")), ContentLength: -1, Request: r}, nil
}

// TestScripts: a script on the web is stored for the namespace that asks, and none comes from
// this machine's own servers.
func TestScripts(t *testing.T) {
	r := newRig(t, Options{Transport: scripts{}})
	library := r.stores.Library()
	run(t, library.Run)
	fetch := func(owner, url string) source.State {
		for {
			s := library.Ensure(owner, url)
			if s.Phase != source.Fetching {
				return s
			}
			<-library.Changes()
		}
	}
	s := fetch("u-1000/job", "https://scripts.test/train.py")
	if s.Phase != source.Ready || s.File != "train.py" {
		t.Fatalf("%+v", s)
	}
	code := r.stores.Code()
	must(t, code.Checkout(t.Context(), "u-1000", s.Digest, filepath.Join(t.TempDir(), "out")))
	if err := code.Checkout(t.Context(), "u-1001", s.Digest, filepath.Join(t.TempDir(), "out")); !errors.Is(err, source.ErrNotStored) {
		t.Errorf("a script that another namespace asked for: %v", err)
	}
	if s := fetch("u-1001/job", "https://scripts.test/train.py"); s.Phase != source.Ready {
		t.Errorf("%+v", s)
	}
	must(t, code.Checkout(t.Context(), "u-1001", s.Digest, filepath.Join(t.TempDir(), "out")))
	if s := fetch("u-1000/inner", "http://127.0.0.1/train.py"); s.Phase != source.Failed || !strings.Contains(s.Message, "this machine's own") {
		t.Errorf("a script of this machine: %+v", s)
	}
	if left := files(t, filepath.Join(r.home, Folder, incomingFolder)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// ready is an outfitter and a builder that have one environment.
type ready struct {
	Outfitter
	key   string
	phase environment.Phase
}

func (o ready) Ensure(*v1alpha1.TrainingJob, environment.Request) environment.State {
	return environment.State{Phase: o.phase, Key: o.key}
}

func (o ready) EnsureFor(*v1alpha1.PipelineRun, []v1alpha1.Role, environment.Request) environment.State {
	return environment.State{Phase: o.phase, Key: o.key}
}

func (ready) Path(key string) (string, error)     { return "/path/" + key, nil }
func (ready) Bench(key, _ string) (string, error) { return "/bench/" + key, nil }

// TestEnvironments: pods of a namespace find an environment once a job or run of it asked for
// it, also after a restart.
func TestEnvironments(t *testing.T) {
	r := newRig(t, Options{})
	key := strings.Repeat("ab", 32)
	o := ready{key: key, phase: environment.Building}
	find := func(namespace string, want bool) {
		t.Helper()
		node := Environments{Grants: r.stores.Grants(), Folders: o}
		_, path := node.Path(namespace, key)
		_, bench := node.Bench(namespace, key, "who")
		if (path == nil) != want || (bench == nil) != want {
			t.Errorf("%s: %v, %v, want found: %v", namespace, path, bench, want)
		}
	}
	job := &v1alpha1.TrainingJob{}
	job.Namespace = "u-1000"
	Granting{ready{key: key, phase: environment.Failed}, r.stores.Grants()}.Ensure(job, environment.Request{})
	find("u-1000", false)
	if s := (Granting{o, r.stores.Grants()}).Ensure(job, environment.Request{}); s.Phase != environment.Building {
		t.Errorf("%+v", s)
	}
	find("u-1000", true)
	find("u-1001", false)
	r.open(Options{})
	find("u-1000", true)
	find("u-1001", false)
	stage := &v1alpha1.PipelineRun{}
	stage.Namespace = "u-1001"
	Granting{o, r.stores.Grants()}.EnsureFor(stage, nil, environment.Request{})
	find("u-1001", true)
	job.Namespace = "../x"
	if s := (Granting{o, r.stores.Grants()}).Ensure(job, environment.Request{}); s.Phase != environment.Failed {
		t.Errorf("%+v", s)
	}
	// The environment is not on disk: what a job names stays granted, the rest goes.
	_, err := r.keeper(map[string][]string{"u-1000": {key}}).Prune(t.Context())
	must(t, err)
	find("u-1000", true)
	_, err = r.keeper(nil).Prune(t.Context())
	must(t, err)
	find("u-1000", false)
}

// TestQuotas: a namespace that keeps its quota gets no more, and the other goes on.
func TestQuotas(t *testing.T) {
	r := newRig(t, Options{CodeQuota: 1000, DataQuota: 10_000})
	small, large := snapshot(t, r.mine, "print(1)"), snapshot(t, r.mine, strings.Repeat("x", 900))
	must(t, r.send("u-1000", large))
	other := snapshot(t, r.mine, strings.Repeat("y", 900))
	if err := r.send("u-1000", other); !errors.Is(err, depot.ErrQuota) {
		t.Errorf("more code than the quota: %v", err)
	}
	must(t, r.send("u-1000", small))
	must(t, r.send("u-1001", other))

	must(t, r.stores.Data().Reserve(t.Context(), "u-1000", 9_000))
	if err := r.stores.Data().Reserve(t.Context(), "u-1000", 9_000); !errors.Is(err, warehouse.ErrQuota) {
		t.Errorf("more data than the quota: %v", err)
	}
	must(t, r.stores.Data().Reserve(t.Context(), "u-1001", 9_000))
	o, err := Options{Home: t.TempDir()}.complete()
	if err != nil || o.DataQuota <= 0 || o.KeepCode != depot.Forever {
		t.Errorf("defaults: %+v, %v", o, err)
	}
}

// TestPrune: code stays for as long as an object of its own namespace names it.
func TestPrune(t *testing.T) {
	r := newRig(t, Options{KeepCode: 14 * day})
	named, unnamed := snapshot(t, r.mine, "1"), snapshot(t, r.mine, "2")
	for _, namespace := range []string{"u-1000", "u-1001"} {
		must(t, r.send(namespace, named))
		must(t, r.send(namespace, unnamed))
	}
	r.ahead.Store(int64(15 * day))
	report, err := r.keeper(map[string][]string{"u-1000": {named.Digest()}}).Prune(t.Context())
	must(t, err)
	r.ahead.Store(0)
	if report.Code.Snapshots != 3 {
		t.Errorf("%+v", report)
	}
	if !r.code("u-1000", named) || r.code("u-1000", unnamed) || r.code("u-1001", named) || r.code("u-1001", unnamed) {
		t.Error("a job keeps code of another namespace, or not its own")
	}
}

// TestRandomOperations compares two namespaces with a model, after each of many operations.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, Options{KeepCode: 14 * day})
		namespaces := []string{"u-1000", "u-1001"}
		var pool []*source.Parcel
		for _, text := range []string{"a", "b", "c"} {
			pool = append(pool, snapshot(t, r.mine, text))
		}
		code, commits, granted := map[string]bool{}, map[string]bool{}, map[string]bool{}
		var made []string
		for step := range 25 {
			namespace, p := namespaces[random.IntN(2)], pool[random.IntN(len(pool))]
			id := namespace + " " + p.Digest()
			switch random.IntN(6) {
			case 0, 1:
				must(t, r.send(namespace, p))
				code[id] = true
			case 2:
				r.ahead.Store(int64(15 * day))
				_, err := r.keeper(map[string][]string{namespace: {p.Digest()}}).Prune(t.Context())
				must(t, err)
				r.ahead.Store(0)
				code = map[string]bool{id: code[id]}
				granted = map[string]bool{namespace + " " + key(p): granted[namespace+" "+key(p)], other(namespace) + " " + key(p): granted[other(namespace)+" "+key(p)]}
			case 3:
				commit := put(t, r.store(namespace), strings.Repeat("z", random.IntN(3)))
				commits[namespace+" "+commit] = true
				made = append(made, commit)
			case 4:
				must(t, r.stores.Grants().Give(namespace, key(p)))
				granted[namespace+" "+key(p)] = true
			case 5:
				r.open(Options{KeepCode: 14 * day})
			}
			for _, namespace := range namespaces {
				for _, p := range pool {
					if got, want := r.code(namespace, p), code[namespace+" "+p.Digest()]; got != want {
						t.Fatalf("seed %d, step %d: %s has code %s: %v, want %v", seed, step, namespace, p.Digest(), got, want)
					}
					if got, want := r.stores.Grants().check(namespace, key(p)) == nil, granted[namespace+" "+key(p)]; got != want {
						t.Fatalf("seed %d, step %d: %s may use %s: %v, want %v", seed, step, namespace, key(p), got, want)
					}
				}
				for _, commit := range made {
					if got, want := reads(t, r.store(namespace), commit), commits[namespace+" "+commit]; got != want {
						t.Fatalf("seed %d, step %d: %s has commit %s: %v, want %v", seed, step, namespace, commit, got, want)
					}
				}
			}
		}
	}
}

// key is the key of an environment: that of a snapshot, for short, so that a job which names
// the one names the other.
func key(p *source.Parcel) string { return strings.TrimPrefix(p.Digest(), "sha256:") }

func other(namespace string) string {
	if namespace == "u-1000" {
		return "u-1001"
	}
	return "u-1000"
}
