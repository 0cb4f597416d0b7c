package passage

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin"
	"github.com/muster-dev/muster/internal/people/signin/idp"
)

// TestAttributes: which requests are reads of what, and that nothing else passes.
func TestAttributes(t *testing.T) {
	type rights = authorizationv1.ResourceAttributes
	pods := rights{Version: "v1", Resource: "pods", Verb: "list"}
	jobs := rights{Group: "muster.dev", Version: "v1alpha1", Namespace: "a", Resource: "trainingjobs", Verb: "get", Name: "j"}
	for _, c := range []struct {
		method, target string
		want           *rights // nil: it does not pass
	}{
		{"GET", "/api/v1/pods", &pods},
		{"GET", "/base/api/v1/pods?limit=5&watch=false", &pods},
		{"GET", "/api/v1/pods?watch=1", &rights{Version: "v1", Resource: "pods", Verb: "watch"}},
		{"GET", "/api/v1/pods?watch", &rights{Version: "v1", Resource: "pods", Verb: "watch"}},
		{"GET", "/api/v1/namespaces/a", &rights{Version: "v1", Resource: "namespaces", Verb: "get", Name: "a"}},
		{"GET", "/apis/muster.dev/v1alpha1/namespaces/a/trainingjobs/j", &jobs},
		{"GET", "/api/v1/pods?watch=false&watch=true", nil},
		{"GET", "/api/v1/namespaces/a/pods/p?watch=true", nil},
		{"GET", "/api/v1/watch/pods", nil},
		{"GET", "/api/v1/namespaces/a/pods/p/log", nil},
		{"GET", "/api/v1/namespaces/a/pods/p/exec", nil},
		{"GET", "/api/v1/namespaces/a/pods/p/proxy/x", nil},
		{"GET", "/api/v1/nodes/n/proxy", nil},
		{"GET", "/api/v1/namespaces/a/secrets", nil},
		{"GET", "/api/v1/namespaces/a/configmaps/c", nil},
		{"GET", "/apis/apps/v1/deployments", nil},
		{"GET", "/apis/metrics.k8s.io/v1/pods", nil},
		{"GET", "/api/v1", nil},
		{"GET", "/version", nil},
		{"GET", "/", nil},
		{"GET", "/api/v1//pods", nil},
		{"GET", "/api/v1/namespaces/../pods", nil},
		{"GET", "/api/v1/namespaces/a%2Fpods/x/pods", nil},
		{"POST", "/api/v1/pods", nil},
		{"DELETE", "/apis/muster.dev/v1alpha1/namespaces/a/trainingjobs/j", nil},
		{"HEAD", "/api/v1/pods", nil},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.target, http.NoBody)
		got, ok := attributes(r, "/base/")
		if ok != (c.want != nil) {
			t.Errorf("%s %s passes: %t", c.method, c.target, ok)
		} else if ok {
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", c.method, c.target, diff)
			}
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", http.NoBody)
	r.Header.Set("Upgrade", "websocket")
	if _, ok := attributes(r, "/"); ok {
		t.Error("an upgrade passes")
	}
}

// TestDoor: a credential goes to its API server only, and a request brings none along.
func TestDoor(t *testing.T) {
	seen := make(chan http.Header, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	t.Cleanup(api.Close)
	server, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{server: server, nobody: http.DefaultTransport, manager: http.DefaultTransport, o: Options{Groups: []string{"oidc:a", "system:masters"}}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, api.URL+"/api", http.NoBody)
	r.RequestURI = ""
	for _, name := range []string{"Authorization", "Impersonate-User", "Impersonate-Group", "Impersonate-Extra-X", "X-Remote-User"} {
		r.Header.Set(name, "system:admin")
	}
	answer, err := c.impersonator(session.Caller{User: "oidc:ann", Groups: []string{"oidc:a", "oidc:b"}}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	got := <-seen
	got.Del("Accept-Encoding")
	got.Del("User-Agent")
	if diff := cmp.Diff(http.Header{"Impersonate-User": {"oidc:ann"}, "Impersonate-Group": {"oidc:a"}}, got); diff != "" {
		t.Errorf("the API server sees (-want +got):\n%s", diff)
	}
	r.URL.Host = "elsewhere.example.org"
	if _, err := c.bearer(signin.Token{Raw: "t"}).RoundTrip(r); err == nil || !strings.Contains(err.Error(), "alone") { //nolint:bodyclose // there is no answer
		t.Errorf("to another host: %v", err)
	}
}

// TestNames: what claims name, and names that are those of Kubernetes.
func TestNames(t *testing.T) {
	p := idp.Start(t, "https://a.example.org")
	provider, err := signin.New(signin.Options{Issuer: p.URL, ClientID: idp.ClientID, Client: p.Client()})
	if err != nil {
		t.Fatal(err)
	}
	names := Names{Issuer: p.URL, User: "email", UserPrefix: "oidc:", Groups: "groups", GroupsPrefix: "oidc:"}
	for _, c := range []struct {
		name   string
		claims map[string]any
		change func(*Names)
		want   session.Caller
		says   string
	}{
		{name: "both", claims: map[string]any{"email": "a@b", "groups": []string{"y", "x", "y", ""}}, want: session.Caller{User: "oidc:a@b", Groups: []string{"oidc:x", "oidc:y"}}},
		{name: "one group", claims: map[string]any{"email": "a@b", "groups": "x"}, want: session.Caller{User: "oidc:a@b", Groups: []string{"oidc:x"}}},
		{name: "no groups", claims: map[string]any{"email": "a@b", "email_verified": true, "groups": 7}, want: session.Caller{User: "oidc:a@b"}},
		{name: "no name", claims: map[string]any{"groups": "x"}, says: `no claim "email"`},
		{name: "a name that is no text", claims: map[string]any{"email": []string{"a"}}, says: `no claim "email"`},
		{name: "not verified", claims: map[string]any{"email": "a@b", "email_verified": false}, says: "has not verified"},
		{name: "a name of the system", claims: map[string]any{"email": "system:admin"}, change: func(n *Names) { n.UserPrefix = "" }, says: "of Kubernetes itself"},
		{name: "a group of the system", claims: map[string]any{"email": "a", "groups": []string{"system:masters", "x"}}, change: func(n *Names) { n.GroupsPrefix = "" }, want: session.Caller{User: "oidc:a", Groups: []string{"x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.Set(func(s *idp.Settings) { s.Claims = c.claims })
			token, err := provider.Check(t.Context(), p.Sign(""), "")
			if err != nil {
				t.Fatal(err)
			}
			n := names
			if c.change != nil {
				c.change(&n)
			}
			got, err := n.of(token)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
