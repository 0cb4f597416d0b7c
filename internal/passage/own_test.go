package passage

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/people/session"
)

// TestOwn: a way carries the credential of the kubeconfig, for its user alone.
func TestOwn(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	t.Cleanup(api.Close)
	own, err := NewOwn(&rest.Config{Host: api.URL, BearerToken: "ada's"}, "unix:1000")
	if err != nil {
		t.Fatal(err)
	}
	way, err := own.Of(t.Context(), session.Caller{User: "unix:1000"})
	if err != nil || way.ReadOnly != "" {
		t.Fatalf("read-only %q, error %v", way.ReadOnly, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, way.Server.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := way.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err != nil || closed != nil || string(text) != "Bearer ada's" {
		t.Errorf("the API sees %q (%v)", text, err)
	}
	if way, err := own.Of(t.Context(), session.Caller{User: "unix:1001"}); err == nil || way.Transport != nil {
		t.Errorf("another user gets a way: %v", err)
	}
}
