package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/environment/source"
)

const day = 24 * time.Hour

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixed are references that do not change, or that cannot be read.
type fixed struct {
	refs retention.References
	err  error
}

func (f *fixed) Read(context.Context) (retention.References, error) { return f.refs, f.err }

// folder is a data folder with one snapshot and one environment, both reserved
// just now.
type folder struct {
	store              *source.Store
	environments       string
	digest, key        string
	references         *fixed
	hasCode, hasPython func() bool
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	home := t.TempDir()
	store, err := source.Open(filepath.Join(home, "code"))
	must(t, err)
	code := t.TempDir()
	must(t, os.WriteFile(filepath.Join(code, "train.py"), []byte("print(1)"), 0o644))
	result, err := store.Snapshot(t.Context(), code, source.Options{})
	must(t, err)
	f := &folder{store: store, environments: filepath.Join(home, "environments"), digest: result.Digest, key: strings.Repeat("ab", 32), references: &fixed{}}
	venv := filepath.Join(f.environments, f.key, "venv")
	must(t, os.MkdirAll(filepath.Join(venv, "bin"), 0o755))
	must(t, os.WriteFile(filepath.Join(venv, "bin", "python"), []byte("#!/bin/sh\n"), 0o755))
	marker, err := json.Marshal(map[string]string{"path": venv})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(f.environments, f.key, ".ready"), marker, 0o644))
	f.hasCode = func() bool {
		dst := filepath.Join(t.TempDir(), "out")
		return store.Checkout(t.Context(), f.digest, dst) == nil
	}
	f.hasPython = func() bool {
		_, err := os.Stat(filepath.Join(venv, "bin", "python"))
		return err == nil
	}
	return f
}

func (f *folder) options(age time.Duration) Options {
	return Options{
		Store: f.store, Environments: f.environments, References: f.references,
		KeepCode: 14 * day, KeepEnvironments: 14 * day,
		Now: func() time.Time { return time.Now().Add(age) },
	}
}

func TestPrune(t *testing.T) {
	zero := time.Duration(0)
	for _, c := range []struct {
		name         string
		age          time.Duration // since both were reserved
		set          func(o *Options, f *folder)
		request      Request
		code, python bool // are there afterwards
		err          string
	}{
		{name: "within the retention", age: 13 * day, code: true, python: true},
		{name: "past it", age: 15 * day},
		{name: "past it, code alone is kept for ever", age: 15 * day, set: func(o *Options, _ *folder) { o.KeepCode = 0 }, code: true},
		{name: "past it, all is kept for ever", age: 15 * day, set: func(o *Options, _ *folder) { o.KeepCode, o.KeepEnvironments = 0, 0 }, code: true, python: true},
		{name: "kept for ever gives way to what is asked for", age: 15 * day, set: func(o *Options, _ *folder) { o.KeepCode, o.KeepEnvironments = 0, 0 }, request: Request{OlderThan: &zero}},
		{name: "a dry run", age: 15 * day, request: Request{DryRun: true}, code: true, python: true},
		{name: "half an hour old, everything is to go", age: 30 * time.Minute, request: Request{OlderThan: &zero}, code: true, python: true},
		{name: "two hours old, everything is to go", age: 2 * time.Hour, request: Request{OlderThan: &zero}},
		{name: "the code is referred to", age: 15 * day, set: func(_ *Options, f *folder) { f.references.refs.Mention(f.digest) }, code: true},
		{name: "the environment is referred to", age: 15 * day, set: func(_ *Options, f *folder) { f.references.refs.Mention("/x/" + f.key + "/venv") }, python: true},
		{name: "nobody knows what is referred to", age: 15 * day, set: func(_ *Options, f *folder) { f.references.err = errors.New("the server is away") },
			request: Request{OlderThan: &zero}, code: true, python: true, err: "nothing was removed): the server is away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			o := f.options(c.age)
			if c.set != nil {
				c.set(&o, f)
			}
			report, err := New(o).Prune(t.Context(), c.request)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if code, python := f.hasCode(), f.hasPython(); code != c.code || python != c.python {
				t.Errorf("code there: %v, environment there: %v; %+v", code, python, report)
			}
			if gone := report.Bytes() > 0; gone != (!c.code || !c.python || c.request.DryRun) {
				t.Errorf("%d bytes went", report.Bytes())
			}
		})
	}
}

// TestAnErrorOfOneKindDoesNotSpareTheOther damages the list of files of a
// snapshot that stays.
func TestAnErrorOfOneKindDoesNotSpareTheOther(t *testing.T) {
	f := newFolder(t)
	f.references.refs.Mention(f.digest)
	hash := strings.TrimPrefix(f.digest, "sha256:")
	must(t, os.WriteFile(filepath.Join(filepath.Dir(f.environments), "code", "trees", hash[:2], hash), []byte("{}"), 0o600))
	report, err := New(f.options(15*day)).Prune(t.Context(), Request{})
	if err == nil || !strings.Contains(err.Error(), "damaged on disk") || len(report.Code.Removed) != 0 {
		t.Errorf("%+v, %v", report.Code, err)
	}
	if f.hasPython() || len(report.Environments.Removed) != 1 {
		t.Errorf("%+v", report.Environments)
	}
}

// TestRunAfterTheStartAndDaily drives the loop by its alarm: each pass is over
// when the next alarm is set.
func TestRunAfterTheStartAndDaily(t *testing.T) {
	f := newFolder(t)
	var log bytes.Buffer
	alarms, ring := make(chan time.Duration), make(chan time.Time)
	age := time.Duration(0)
	o := f.options(0)
	o.Now = func() time.Time { return time.Now().Add(age) }
	o.After = func(d time.Duration) <-chan time.Time {
		select {
		case alarms <- d:
		case <-t.Context().Done():
		}
		return ring
	}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	var removed []string
	o.Removed = func(r Report) {
		removed = append(removed, fmt.Sprint(len(r.Code.Removed), len(r.Environments.Removed)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- New(o).Run(ctx, ready) }()
	select {
	case <-alarms:
		t.Fatal("began before all was ready")
	default:
	}
	close(ready)
	var waits []time.Duration
	waits = append(waits, <-alarms)
	ring <- time.Time{} // 1: nothing is old
	waits = append(waits, <-alarms)
	if !f.hasCode() || !f.hasPython() || len(removed) != 0 {
		t.Error("the first pass removed something")
	}
	age, f.references.err = 15*day, errors.New("the server is away")
	ring <- time.Time{} // 2: cannot tell
	waits = append(waits, <-alarms)
	if !strings.Contains(log.String(), "the server is away") || !f.hasPython() {
		t.Errorf("after a pass that could not tell what is in use: %s", log.String())
	}
	f.references.err = nil
	ring <- time.Time{} // 3
	waits = append(waits, <-alarms)
	cancel()
	must(t, <-ended)
	if f.hasPython() || len(removed) != 1 {
		t.Errorf("removed: %v", removed)
	}
	if diff := cmp.Diff([]time.Duration{StartDelay, Every, Every, Every}, waits); diff != "" {
		t.Error(diff)
	}
}
