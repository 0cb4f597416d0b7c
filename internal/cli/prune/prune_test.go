package prune

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/environment/source"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a data folder with two snapshots and two environments that were
// stored just now; the first of each is what the one job of its server uses.
type machine struct {
	home      string
	now       time.Time
	store     *source.Store
	digests   [2]string
	keys      [2]string
	failing   bool // the server answers with an error
	elsewhere string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{home: t.TempDir(), keys: [2]string{strings.Repeat("a1", 32), strings.Repeat("b2", 32)}}
	var err error
	m.store, err = source.Open(filepath.Join(m.home, "code"))
	must(t, err)
	for i := range m.digests {
		code := t.TempDir()
		must(t, os.WriteFile(filepath.Join(code, "train.py"), fmt.Appendf(nil, "print(%d)", i), 0o644))
		result, err := m.store.Snapshot(t.Context(), code, source.Options{})
		must(t, err)
		m.digests[i] = result.Digest
		venv := filepath.Join(m.home, "environments", m.keys[i], "venv")
		must(t, os.MkdirAll(filepath.Join(venv, "bin"), 0o755))
		must(t, os.WriteFile(filepath.Join(venv, "bin", "python"), []byte("#!/bin/sh\n"), 0o755))
		marker, err := json.Marshal(map[string]string{"path": venv})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(m.home, "environments", m.keys[i], ".ready"), marker, 0o644))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		items := ""
		if strings.HasSuffix(r.URL.Path, "/trainingjobs") {
			items = fmt.Sprintf(`{"apiVersion":"muster.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"mnist"},"spec":{"code":{"snapshot":%q}},"status":{"environmentKey":%q}}`, m.digests[0], m.keys[0])
		}
		if m.failing && strings.HasSuffix(r.URL.Path, "/pods") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods is forbidden"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"List","metadata":{},"items":[%s]}`, items)
	}))
	t.Cleanup(server.Close)
	m.kubeconfig(t, server.URL)
	m.now = time.Now()
	return m
}

func (m *machine) kubeconfig(t *testing.T, server string) {
	t.Helper()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`, server)
	must(t, os.WriteFile(filepath.Join(m.home, "kubeconfig"), []byte(config), 0o600))
}

// there says which of the four are in the data folder: code 0 and 1,
// environment 0 and 1.
func (m *machine) there(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for i := range m.digests {
		if found, err := m.store.Contains(m.digests[i], "train.py"); err == nil && found {
			_, _ = fmt.Fprintf(&out, "c%d ", i)
		}
	}
	for i, key := range m.keys {
		if _, err := os.Stat(filepath.Join(m.home, "environments", key, "venv", "bin", "python")); err == nil {
			_, _ = fmt.Fprintf(&out, "e%d ", i)
		}
	}
	return strings.TrimSpace(out.String())
}

func (m *machine) run(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	f := connection.New(terminal.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, "test")
	f.Getenv = func(name string) string {
		switch name {
		case connection.EnvHome:
			return m.home
		case connection.EnvKubeconfig:
			return m.elsewhere
		}
		return ""
	}
	root := &cobra.Command{Use: "muster", SilenceErrors: true, SilenceUsage: true}
	f.AddFlags(root.PersistentFlags())
	root.AddCommand(newCommand(f, func() time.Time { return m.now }))
	root.SetArgs(append([]string{"prune"}, args...))
	err := root.ExecuteContext(ctx)
	return out.String(), f.Explain(err)
}

func TestPrune(t *testing.T) {
	for _, c := range []struct {
		name  string
		age   time.Duration
		file  string // config.yaml
		args  []string
		there string
		says  []string
	}{
		{name: "within the retention", age: 13 * 24 * time.Hour, there: "c0 c1 e0 e1", says: []string{"removed 0 code snapshots and 0 environments, freed 0 B\n"}},
		{name: "past it", age: 15 * 24 * time.Hour, there: "c0 e0", says: []string{"removed 1 code snapshot and 1 environment, freed ", "KIND", "15d 0h ago", "sha256:"}},
		{name: "a dry run", age: 15 * 24 * time.Hour, args: []string{"--dry-run"}, there: "c0 c1 e0 e1", says: []string{"would remove 1 code snapshot and 1 environment, would free ", "sha256:"}},
		{name: "older than given", age: 2 * time.Hour, args: []string{"--older-than", "1h30m"}, there: "c0 e0", says: []string{"removed 1 code snapshot and 1 environment"}},
		{name: "everything, after the grace period", age: 2 * time.Hour, args: []string{"--older-than", "0s"}, there: "c0 e0", says: []string{"2h 0m ago"}},
		{name: "everything, within the grace period", age: 10 * time.Minute, args: []string{"--older-than", "0s"}, there: "c0 c1 e0 e1",
			says: []string{"kept for now: 1 code snapshot that nobody uses", "kept for now: 1 environment that nobody uses, stored or asked for within the last hour"}},
		{name: "as the configuration says", age: 25 * time.Hour, file: "retention: {code: 24h, environments: 0}\n", there: "c0 e0 e1",
			says: []string{"removed 1 code snapshot and 0 environments", "environments are kept for ever, as the configuration says"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.now = m.now.Add(c.age)
			if c.file != "" {
				must(t, os.WriteFile(filepath.Join(m.home, "config.yaml"), []byte("apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\n"+c.file), 0o600))
			}
			out, err := m.run(t.Context(), c.args...)
			must(t, err)
			if got := m.there(t); got != c.there {
				t.Errorf("there are %s, want %s", got, c.there)
			}
			for _, word := range c.says {
				if !strings.Contains(out, word) {
					t.Errorf("nothing says %q:\n%s", word, out)
				}
			}
		})
	}
}

// TestPruneByTheConfiguration that was named here, or else at the start.
func TestPruneByTheConfiguration(t *testing.T) {
	file := func(t *testing.T, code string) string {
		path := filepath.Join(t.TempDir(), "other.yaml")
		must(t, os.WriteFile(path, []byte("apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\nretention: {code: "+code+", environments: 0}\n"), 0o600))
		return path
	}
	for _, c := range []struct {
		name        string
		named, last string // a retention, or a file that is not there
		there, says string
	}{
		{name: "none named", there: "c0 c1 e0 e1"},
		{name: "named here", named: "24h", there: "c0 e0 e1"},
		{name: "named at the start", last: "24h", there: "c0 e0 e1"},
		{name: "both", last: "24h", named: "48h", there: "c0 c1 e0 e1"},
		{name: "named here and not there", named: "none", there: "c0 c1 e0 e1", says: "reading the configuration: open "},
		{name: "named at the start and not there any more", last: "none", there: "c0 c1 e0 e1", says: "give another with --config"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.now = m.now.Add(30 * time.Hour)
			path := func(retention string) string {
				if retention == "none" {
					return filepath.Join(t.TempDir(), "none.yaml")
				}
				return file(t, retention)
			}
			if c.last != "" {
				must(t, instance.Home(m.home).Write(instance.State{Phase: instance.Ready, Settings: path(c.last)}))
			}
			var args []string
			if c.named != "" {
				args = []string{"--config", path(c.named)}
			}
			_, err := m.run(t.Context(), args...)
			code, _ := exit.Of(err)
			if c.says == "" && err != nil || c.says != "" && (code != exit.Misuse || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("code %d, error %v, want %q", code, err, c.says)
			}
			if got := m.there(t); got != c.there {
				t.Errorf("there are %s, want %s", got, c.there)
			}
		})
	}
}

func TestPruneAsJSON(t *testing.T) {
	m := newMachine(t)
	m.now = m.now.Add(15 * 24 * time.Hour)
	var got, would Document
	out, err := m.run(t.Context(), "-o", "json", "--dry-run")
	must(t, err)
	must(t, json.Unmarshal([]byte(out), &would))
	out, err = m.run(t.Context(), "-o", "json")
	must(t, err)
	must(t, json.Unmarshal([]byte(out), &got))
	if !would.DryRun || got.DryRun || got.FreedBytes == 0 || got.FreedBytes != got.Code.FreedBytes+got.Environments.FreedBytes {
		t.Errorf("%+v", got)
	}
	would.DryRun = false
	if diff := cmp.Diff(would, got); diff != "" {
		t.Errorf("a dry run says other than what went (-would +went):\n%s", diff)
	}
	sizes := cmpopts.IgnoreFields(Item{}, "LastUsed", "Bytes")
	want := Document{
		FreedBytes:   got.FreedBytes,
		Code:         Part{Removed: []Item{{Name: m.digests[1]}}, Kept: 1, FreedBytes: got.Code.FreedBytes},
		Environments: Part{Removed: []Item{{Name: m.keys[1]}}, Kept: 1, FreedBytes: got.Environments.FreedBytes},
	}
	if diff := cmp.Diff(want, got, sizes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNothingIsRemovedUnlessItIsKnownWhatIsInUse by this folder's own Muster.
func TestNothingIsRemovedUnlessItIsKnownWhatIsInUse(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(t *testing.T, m *machine) []string
		code exit.Code
		says string
	}{
		{"a list is refused", func(_ *testing.T, m *machine) []string { m.failing = true; return nil }, exit.Failure, "(nothing was removed): listing the pods: pods is forbidden"},
		{"nobody answers", func(t *testing.T, m *machine) []string { m.kubeconfig(t, "http://127.0.0.1:1"); return nil }, exit.Missing, "no Muster is running here"},
		{"it was never started, and another cluster is at hand", func(t *testing.T, m *machine) []string {
			m.elsewhere = filepath.Join(t.TempDir(), "kubeconfig")
			must(t, os.Rename(filepath.Join(m.home, "kubeconfig"), m.elsewhere))
			return nil
		}, exit.Missing, "no Muster is running here"},
		{"another cluster is asked for", func(_ *testing.T, m *machine) []string {
			return []string{"--kubeconfig", filepath.Join(m.home, "kubeconfig")}
		}, exit.Misuse, "--kubeconfig and prune do not go together"},
		{"a time before now", func(*testing.T, *machine) []string { return []string{"--older-than=-1h"} }, exit.Misuse, "--older-than -1h0m0s: give 0s or more"},
		{"a format that is none", func(*testing.T, *machine) []string { return []string{"-o", "wide"} }, exit.Misuse, "allowed are json, yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.now = m.now.Add(100 * 24 * time.Hour)
			out, err := m.run(t.Context(), c.set(t, m)...)
			if code, _ := exit.Of(err); err == nil || code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("code %d, %v", code, err)
			}
			if got := m.there(t); got != "c0 c1 e0 e1" || out != "" {
				t.Errorf("there are %s; it says %q", got, out)
			}
		})
	}
}
