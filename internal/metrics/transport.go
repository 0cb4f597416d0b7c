package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Transport notes every write that goes through next: put it around the
// transport of a client's configuration.
func (r *Recorder) Transport(next http.RoundTripper) http.RoundTripper {
	return transport{recorder: r, next: next}
}

type transport struct {
	recorder *Recorder
	next     http.RoundTripper
}

// RoundTrip passes a request on.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	verb := verbs[request.Method]
	if verb == "" || request.URL.Query().Has("dryRun") {
		return t.next.RoundTrip(request)
	}
	resource, began := resourceOf(request.URL.Path), time.Now()
	answer, err := t.next.RoundTrip(request)
	t.recorder.writes.WithLabelValues(verb, resource).Observe(time.Since(began).Seconds())
	switch {
	case err != nil:
		t.recorder.refused.WithLabelValues(verb, resource, "0").Inc()
	case answer.StatusCode >= http.StatusBadRequest:
		t.recorder.refused.WithLabelValues(verb, resource, strconv.Itoa(answer.StatusCode)).Inc()
	}
	return answer, err
}

// verbs are the methods that write, as Kubernetes calls them.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// resourceOf is what a path of the API is about: "pods", "gangs/status". It
// has no name in it.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other"
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
