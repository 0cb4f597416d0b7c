package website

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newAPI returns an API server that knows ada by her token, and who may list nodes.
func newAPI(t *testing.T) *rest.Config {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") != "Bearer ada":
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403, Message: "you may not"})
		case r.URL.Path == reviewPath && r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"status": {"userInfo": {"username": "ada@example.org", "groups": ["vision"]}}}`))
		case r.URL.Path == "/api":
			_ = json.NewEncoder(w).Encode(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		case r.URL.Path == "/apis":
			_ = json.NewEncoder(w).Encode(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
		case r.URL.Path == "/api/v1":
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "nodes", Kind: "Node"}, {Name: "pods", Kind: "Pod", Namespaced: true}}})
		case r.URL.Path == "/api/v1/nodes":
			_ = json.NewEncoder(w).Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "box"}}}})
		case r.URL.Path == "/api/v1/pods":
			_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}})
		default:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
		}
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL, BearerToken: "ada"}
}

// running is a console of a test.
type running struct {
	home string
	said chan string
	stop func()
}

func run(t *testing.T, config configuration.Console) *running {
	t.Helper()
	r := &running{home: t.TempDir(), said: make(chan string, 16)}
	c, err := New(t.Context(), Options{Home: r.home, Config: config, REST: newAPI(t), Version: "test", Log: slog.New(slog.DiscardHandler),
		Say: func(format string, args ...any) { r.said <- fmt.Sprintf(format, args...) }})
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return r
}

// link asks for a link until the console is there.
func (r *running) link(t *testing.T) control.Link {
	t.Helper()
	for {
		link, err := control.NewClient(Socket(r.home), "").Link(t.Context(), 0)
		if err == nil {
			return link
		}
		if text := Explain(nobody(), err).Error(); text != errStarting.Error() && !strings.HasPrefix(text, "no console") {
			t.Fatal(err)
		}
	}
}

// nobody is a factory of a command that finds no Muster.
func nobody() *connection.Factory {
	f := connection.New(terminal.Streams{}, "test")
	f.Getenv = func(string) string { return "/nowhere" }
	return f
}

func freePort(t *testing.T) (int, []net.Listener) {
	t.Helper()
	listeners, err := web.Listen(t.Context(), "", 0)
	must(t, err)
	return web.PortOf(listeners[0]), listeners
}

func closeListeners(t *testing.T, all []net.Listener) {
	t.Helper()
	for _, l := range all {
		must(t, l.Close())
	}
}

// TestConsole: a link by the socket, answers with the user's credential, a token that works after a restart.
func TestConsole(t *testing.T) {
	port, all := freePort(t)
	closeListeners(t, all)
	r := run(t, configuration.Console{Port: port})
	link := r.link(t)
	if want := fmt.Sprintf("http://localhost:%d/.muster/enter#", port); !strings.HasPrefix(link.URL, want) || link.Port != port {
		t.Errorf("the link is %+v", link)
	}
	client := control.NewClient(Socket(r.home), "")
	token, err := client.CreateToken(t.Context(), control.TokenRequest{Name: "a", Scopes: []string{web.ScopeRead}, Lifetime: 3600})
	must(t, err)
	for path, want := range map[string]string{"/api/me": `"ada@example.org"`, "/api/gpus": `"name":"box"`} {
		if got := get(t, port, path, token.Token); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	r.stop()
	if _, err := client.Link(t.Context(), 0); err == nil || !strings.Contains(Explain(nobody(), err).Error(), "Muster is not running") {
		t.Errorf("after the end: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(Folder(r.home), "sessions.json"))
	if err != nil || session.Reveals(string(text)) || !strings.Contains(string(text), token.ID) {
		t.Errorf("the stored table is %s (%v)", text, err)
	}
}

func get(t *testing.T, port int, path, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://localhost:%d%s", port, path), http.NoBody)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	var text json.RawMessage
	must(t, json.NewDecoder(answer.Body).Decode(&text))
	return string(text)
}

// TestTakenPort: Muster says which port is taken, and the command says it too.
func TestTakenPort(t *testing.T) {
	port, all := freePort(t)
	defer closeListeners(t, all)
	r := run(t, configuration.Console{Port: port})
	defer r.stop()
	want := fmt.Sprintf("127.0.0.1:%d is taken by another program: stop that program, or choose another port", port)
	if said := <-r.said; !strings.HasPrefix(said, "no console: "+want) {
		t.Errorf("Muster says %q", said)
	}
	if _, err := control.NewClient(Socket(r.home), "").Link(t.Context(), 0); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the command says %v", err)
	}
}

// TestForbidden: what the caller may not read is refused with the words of the API server.
func TestForbidden(t *testing.T) {
	config := newAPI(t)
	a, err := newAnswers(config)
	must(t, err)
	other := rest.CopyConfig(config)
	other.BearerToken = "eve"
	way := wayOf(t, other)
	if _, err := a.GPUs(t.Context(), way); err == nil || !strings.Contains(err.Error(), "you may not") {
		t.Errorf("GPUs for another: %v", err)
	}
	if _, err := a.Review(t.Context(), way); err == nil {
		t.Error("the API server knows eve")
	}
	if got, err := a.GPUs(t.Context(), wayOf(t, config)); err != nil || got == nil {
		t.Errorf("GPUs: %v, error %v", got, err)
	}
}

func wayOf(t *testing.T, config *rest.Config) web.Way {
	t.Helper()
	own, err := passage.NewOwn(config, "unix:1000")
	must(t, err)
	way, err := own.Of(t.Context(), session.Caller{User: "unix:1000"})
	must(t, err)
	return way
}
