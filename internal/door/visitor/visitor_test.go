package visitor

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestWhatARefusalSays reads answers of the door, and of the API server that did
// not get as far as it.
func TestWhatARefusalSays(t *testing.T) {
	for name, tt := range map[string]struct {
		door   bool
		status int
		after  string
		body   string
		says   string
		again  time.Duration
	}{
		"the door":             {true, 403, "", `{"error":"this token speaks for namespace ada"}`, "this token speaks for namespace ada", 0},
		"a busy door":          {true, 429, "5", `{"error":"busy"}`, "busy", 5 * time.Second},
		"a door that exceeds":  {true, 503, "86400", `{"error":"busy"}`, "busy", time.Minute},
		"no store":             {true, 503, "", `{"error":"there is no store"}`, "there is no store", 0},
		"to HEAD":              {true, 404, "", "", "answers 404 Not Found", 0},
		"no rights":            {false, 403, "", `{"kind":"Status","message":"services is forbidden"}`, "the role muster-names to you (services is forbidden)", 0},
		"no rights, to HEAD":   {false, 403, "", "", "binds the role muster-names to you", 0},
		"no manager runs":      {false, 503, "", `{"message":"no endpoints available"}`, "does not answer: does it run?", 2 * time.Second},
		"no such service":      {false, 404, "", `{"message":"services not found"}`, "`muster install`", 0},
		"something else there": {false, 200, "", "<html>hello", "the API server answers 200: <html>hello", 0},
	} {
		t.Run(name, func(t *testing.T) {
			answer := &http.Response{
				StatusCode: tt.status, Status: "404 Not Found", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(tt.body)),
			}
			if tt.door {
				answer.Header.Set(v1alpha1.DoorMark, "v1")
			}
			if tt.after != "" {
				answer.Header.Set("Retry-After", tt.after)
			}
			got := (&Visitor{}).refusalIn(answer)
			if !strings.Contains(got.Text, tt.says) || got.after != tt.again || got.ByDoor != tt.door || Is(got, tt.status) != tt.door {
				t.Errorf("%q, again after %s, by the door: %v", got.Text, got.after, got.ByDoor)
			}
		})
	}
}

// TestRefusalOnMachine: what the socket of a machine refuses names no cluster.
func TestRefusalOnMachine(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"uid 7 is no user of this machine"}`: "asking the Muster of this machine: uid 7 is no user of this machine",
		"": "asking the Muster of this machine: 403 Forbidden",
	} {
		answer := &http.Response{StatusCode: 403, Status: "403 Forbidden", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		if got := OnMachine(http.DefaultClient, "http://muster").refusalIn(answer); got.Text != want || got.ByDoor {
			t.Errorf("%q, want %q", got.Text, want)
		}
	}
}
