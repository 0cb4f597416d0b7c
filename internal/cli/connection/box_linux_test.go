package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
)

// factory returns a factory for an environment.
func factory(env map[string]string) *Factory {
	f := New(terminal.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "test")
	f.Getenv = func(name string) string { return env[name] }
	return f
}

// serveBox serves a machine's socket, with a handler for the paths of the API server.
func serveBox(t *testing.T, api http.HandlerFunc) (path string, stop func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "muster.sock")
	server, err := userapi.New(userapi.Options{Directory: account.New(account.Options{FilesOnly: true}), AllowUnknown: true, API: api})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := peer.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return path, stop
}

// TestFind: flags and variables come first, then the home's Muster if it runs, then the
// machine's, then a home that is left, then $KUBECONFIG.
func TestFind(t *testing.T) {
	folder := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, _ := serveBox(t, http.NotFound)
	running, stopped, empty := filepath.Join(folder, "running"), filepath.Join(folder, "stopped"), filepath.Join(folder, "empty")
	for _, home := range []string{running, stopped, empty} {
		must(os.MkdirAll(filepath.Join(home, ".muster"), 0o700))
	}
	for _, home := range []string{running, stopped} {
		must(os.WriteFile(filepath.Join(home, ".muster", "kubeconfig"), nil, 0o600))
	}
	must(instance.Home(filepath.Join(running, ".muster")).Write(instance.State{Phase: instance.Ready}))
	cluster := filepath.Join(folder, "cluster")
	must(os.WriteFile(cluster, nil, 0o600))
	none := filepath.Join(folder, "none.sock")
	for name, c := range map[string]struct {
		home, socket, named, variable, flag, context string
		want                                         Kind
		missing                                      bool
	}{
		"the home's Muster runs":                 {home: running, socket: socket, want: Home},
		"it does not":                            {home: stopped, socket: socket, want: Box},
		"there is none":                          {home: empty, socket: socket, want: Box},
		"before $KUBECONFIG":                     {home: empty, socket: socket, variable: cluster, want: Box},
		"not before --kubeconfig":                {home: empty, socket: socket, flag: cluster, want: Cluster},
		"not before a context":                   {home: empty, socket: socket, variable: cluster, context: "c", want: Cluster},
		"not before a home":                      {home: empty, socket: socket, named: filepath.Join(stopped, ".muster"), want: Home},
		"not before a home with nothing":         {home: running, socket: socket, named: filepath.Join(empty, ".muster"), missing: true},
		"without a socket, a home that is left":  {home: stopped, socket: none, want: Home},
		"without a socket and home, $KUBECONFIG": {home: empty, socket: none, variable: cluster, want: Cluster},
		"nothing":                                {home: empty, socket: none, missing: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", c.home)
			f := factory(map[string]string{EnvSocket: c.socket, EnvHome: c.named, EnvKubeconfig: c.variable})
			f.kubeconfig, f.context = c.flag, c.context
			got, err := f.Kind()
			if code, _ := exit.Of(err); c.missing != (code == exit.Missing) || err != nil && !c.missing || got != c.want {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestFindKeeps: a command goes on with the Muster that it began with.
func TestFindKeeps(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	socket, _ := serveBox(t, http.NotFound)
	f := factory(map[string]string{EnvSocket: socket})
	if kind, err := f.Kind(); err != nil || kind != Box {
		t.Fatal(kind, err)
	}
	folder := filepath.Join(home, ".muster")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "kubeconfig"), nil, 0o600), instance.Home(folder).Write(instance.State{})); err != nil {
		t.Fatal(err)
	}
	if kind, err := f.Kind(); err != nil || kind != Box {
		t.Error(kind, err)
	}
}

// TestBox: requests go by the socket, whatever proxy the environment names, in the user's
// own namespace, and to the door below its path.
func TestBox(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	asked := make(chan string, 10)
	socket, _ := serveBox(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":`+
			`"pods is forbidden: User \"unix:7\" cannot list resource \"pods\" in API group \"\" at the cluster scope"}`)
	})
	f := factory(map[string]string{EnvSocket: socket})
	server, namespace, err := f.Reach()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("u-%d", os.Geteuid()); namespace != want {
		t.Errorf("the namespace is %s, want %s", namespace, want)
	}
	err = f.Explain(server.List(t.Context(), &v1alpha1.TrainingJobList{}, client.InNamespace(namespace)))
	if got, want := <-asked, "muster/apis/muster.dev/v1alpha1/namespaces/"+namespace+"/trainingjobs"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	if want := "unix:7 may not list pods of the whole machine; ask an administrator of the machine"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
	door, err := f.Visitor()
	if err != nil {
		t.Fatal(err)
	}
	if err := door.Ask(t.Context(), namespace, "/top", nil, nil); err == nil || !strings.Contains(err.Error(), `has no path "/muster/door/v1/namespaces/`+namespace+`/top"`) {
		t.Errorf("the door: %v", err)
	}
	if _, embedded, err := f.EmbeddedHome(); err != nil || embedded || f.Elsewhere() {
		t.Errorf("embedded: %v, %v, elsewhere: %v", embedded, err, f.Elsewhere())
	}
}

// TestExplainBox: each way in which a socket does not answer has its words.
func TestExplainBox(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dead := filepath.Join(t.TempDir(), "dead.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cut, _ := serveBox(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	unknown, _ := serveBox(t, func(w http.ResponseWriter, _ *http.Request) {
		peer.Refuse(w, http.StatusForbidden, "uid 7 is no user of this machine")
	})
	for name, c := range map[string]struct {
		socket string
		code   exit.Code
		says   string
	}{
		"nobody listens":     {dead, exit.Missing, "the Muster of this machine is not running (nobody listens at " + dead + "): an administrator starts it"},
		"it stops meanwhile": {cut, exit.Missing, "the Muster of this machine stopped before it answered"},
		"an unknown user":    {unknown, exit.Failure, "the Muster of this machine refuses you: uid 7 is no user of this machine"},
		"no socket":          {os.Args[0], exit.Failure, "is no socket"},
	} {
		t.Run(name, func(t *testing.T) {
			f := factory(map[string]string{EnvSocket: c.socket})
			server, err := f.Client()
			if err != nil {
				t.Fatal(err)
			}
			err = f.Explain(server.Get(t.Context(), client.ObjectKey{Namespace: "u-7", Name: "x"}, &v1alpha1.TrainingJob{}))
			if code, _ := exit.Of(err); code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit code %d, %v; want %d, %q", code, err, c.code, c.says)
			}
		})
	}
	foreign := fmt.Errorf("listing: %w", &peer.ForeignError{Path: "/x", UID: 12345})
	if said := explainBox(foreign, "/x"); said == nil || !strings.Contains(said.Error(), "of uid 12345") || !strings.Contains(said.Error(), "--kubeconfig") {
		t.Errorf("a socket of another user: %v", said)
	}
	if said := explainBox(fmt.Errorf("dialing: %w", &net.OpError{Op: "dial", Err: syscall.EACCES}), "/x"); said == nil || !strings.Contains(said.Error(), "may not connect") {
		t.Errorf("no right to connect: %v", said)
	}
}

// TestStoppedMeanwhile: a Muster that ends between two requests of a command.
func TestStoppedMeanwhile(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	socket, stop := serveBox(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"major":"1","minor":"36"}`)) })
	f := factory(map[string]string{EnvSocket: socket})
	set, err := f.Clientset()
	if err != nil {
		t.Fatal(err)
	}
	version := func(set kubernetes.Interface) error {
		_, err := set.Discovery().ServerVersion()
		return f.Explain(err)
	}
	if err := version(set); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := version(set); err == nil || !strings.Contains(err.Error(), "the Muster of this machine is not running (nobody listens at "+socket) {
		t.Errorf("after the stop: %v", err)
	}
}
