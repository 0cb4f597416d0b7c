package door

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/answer/archivedlog"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/visibility"
)

// TestRuleOfACaller: answers get the caller's namespace, and only what the door itself knows of
// the caller.
func TestRuleOfACaller(t *testing.T) {
	h := open(t, false, func(o *Options) { o.Health, o.ShowUsers = says{}, true })
	for _, path := range []string{"/queues", "/status", "/doctor"} {
		var got visibility.Rule
		if err := h.as("ada").Ask(t.Context(), "ada", path, nil, &got); err != nil || got != (visibility.Rule{Own: "ada", ShowUsers: true}) {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		if err := h.as("bob").Ask(t.Context(), "ada", path, nil, &got); !visitor.Is(err, http.StatusForbidden) {
			t.Errorf("%s of another's namespace: %v", path, err)
		}
	}
	d := New(Options{ShowUsers: true})
	want := visibility.Rule{Own: "u-0", Login: "root", Administrator: true, ShowUsers: true}
	if got := d.rule(Caller{Namespace: "u-0", Login: "root", Administrator: true}, "u-0"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := open(t, false).as("ada").Ask(t.Context(), "ada", "/status", nil, nil); !visitor.Is(err, http.StatusNotFound) {
		t.Errorf("a door that knows no status: %v", err)
	}
}

// shelved has the output of one pod of ada.
type shelved struct{ asked archivedlog.Kept }

func (s *shelved) Pods(namespace, job string) ([]string, error) {
	if namespace != "ada" || job != "uid-1" {
		return archivedlog.In("").Pods(namespace, job)
	}
	return []string{"mnist-worker-0"}, nil
}

func (s *shelved) Open(namespace, job string, kept archivedlog.Kept) (io.ReadCloser, error) {
	s.asked = kept
	if namespace != "ada" || job != "uid-1" || kept.Pod != "mnist-worker-0" {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader("2026-01-02T03:04:05Z epoch 1\n")), nil
}

// TestArchive: ada reads what her pods wrote that are gone, and bob does not.
func TestArchive(t *testing.T) {
	logs := &shelved{}
	h := open(t, false, func(o *Options) { o.Logs = logs })
	pods, err := h.as("ada").Archived(t.Context(), "ada", "uid-1")
	if err != nil || len(pods) != 1 || pods[0] != "mnist-worker-0" {
		t.Fatalf("%v, %v", pods, err)
	}
	kept := archivedlog.Kept{Pod: pods[0], Which: archivedlog.Earlier, Container: "main", Since: time.Unix(1_700_000_000, 5).UTC(), Tail: 7}
	log, err := h.as("ada").ArchivedLog(t.Context(), "ada", "uid-1", kept)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	if text, err := io.ReadAll(log); err != nil || string(text) != "2026-01-02T03:04:05Z epoch 1\n" || logs.asked != kept {
		t.Errorf("%q, %v, asked for %+v, want %+v", text, err, logs.asked, kept)
	}
	if _, err := h.as("bob").Archived(t.Context(), "ada", "uid-1"); !visitor.Is(err, http.StatusForbidden) {
		t.Errorf("bob lists pods of ada: %v", err)
	}
	if _, err := h.as("bob").ArchivedLog(t.Context(), "ada", "uid-1", kept); !visitor.Is(err, http.StatusForbidden) {
		t.Errorf("bob reads a log of ada: %v", err)
	}
	if _, err := h.as("bob").ArchivedLog(t.Context(), "bob", "uid-1", kept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the job of ada in the namespace of bob: %v", err)
	}
	for _, path := range []string{"/archive/uid-1/mnist-worker-0?which=odd", "/archive/uid-1/mnist-worker-0?tail=-2", "/archive/uid-1/mnist-worker-0?since=now", "/archive/..%2Feve"} {
		if err := h.as("ada").Ask(t.Context(), "ada", path, nil, nil); !visitor.Is(err, http.StatusBadRequest) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := open(t, false).as("ada").Archived(t.Context(), "ada", "uid-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a door that keeps nothing: %v", err)
	}
}
