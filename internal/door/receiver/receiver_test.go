package receiver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/visibility"
)

// rights answers reviews: the namespace "shared" is open to all, and for "broken" there
// is no answer.
func rights(t *testing.T, asked *atomic.Int32) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked.Add(1)
			review := o.(*authorizationv1.SubjectAccessReview)
			of := review.Spec.ResourceAttributes
			if of.Namespace == "broken" {
				return errors.New("the API server is away")
			}
			review.Status.Allowed = of.Namespace == "shared" && of.Verb == "create" && of.Resource == "serviceaccounts" &&
				of.Subresource == "token" && of.Name == "muster-door" && review.Spec.User == user()
			return nil
		},
	}).Build()
}

func user() string { return fmt.Sprintf("unix:%d", os.Geteuid()) }

// says answers with whom it was asked for.
type says struct{ door.Answers }

func (says) Top(_ context.Context, rule visibility.Rule) (any, error) {
	return "top of " + rule.Own, nil
}

// keys answers with who asks.
type keys struct{ door.Keys }

func (keys) Make(_ context.Context, who door.Caller, _ time.Duration) (any, error) {
	return who.User + " " + strings.Join(who.Groups, ","), nil
}

// TestDoorBehindSocket: the door's handlers answer the user at the other end of a real
// socket, for the user's own namespace and for those that the API server allows.
func TestDoorBehindSocket(t *testing.T) {
	var asked atomic.Int32
	api := rights(t, &asked)
	receive := New(Options{API: api, Directory: account.New(account.Options{FilesOnly: true})}).Receive
	handler := door.New(door.Options{API: api, Pods: api, Receive: receive, Answers: says{}, Keys: keys{}}).Handler()
	path := filepath.Join(t.TempDir(), "muster.sock")
	listener, err := peer.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ConnContext: peer.Context, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	own := fmt.Sprintf("u-%d", os.Geteuid())
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, path) }
	v := visitor.OnMachine(&http.Client{Transport: &http.Transport{DialContext: dial}}, "http://muster")
	for _, c := range []struct {
		namespace string
		status    int
		says      string
	}{
		{own, 0, "top of " + own}, {"shared", 0, "top of shared"}, {"shared", 0, "top of shared"},
		{"u-4000000", 403, "may not speak for namespace u-4000000: its own is " + own}, {"u-4000000", 403, "may not speak"},
		{"broken", 503, "the API server is away"},
	} {
		var got string
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a busy door is asked again
		err := v.Ask(ctx, c.namespace, "/top", nil, &got)
		cancel()
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != (c.status != 0) || c.status != 0 && !visitor.Is(err, c.status) || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, %v, want status %d, %q", c.namespace, got, err, c.status, c.says)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the API server was asked %d times, want once for each namespace of others", n)
	}
	var who string
	if err := v.MakeKey(t.Context(), own, 0, &who); err != nil || !strings.HasPrefix(who, user()+" ") || !strings.HasSuffix(who, "system:authenticated") {
		t.Errorf("the key is for %q, %v", who, err)
	}
	// What agents of nodes may is for no user, root included.
	if err := v.Report(t.Context(), nil); !visitor.Is(err, http.StatusForbidden) {
		t.Errorf("a report: %v", err)
	}
}

// TestNoPeer: a request that did not come by the socket is refused, whatever it carries.
func TestNoPeer(t *testing.T) {
	var asked atomic.Int32
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/namespaces/u-0/top", nil)
	request.Header.Set("X-Muster-Token", "x")
	_, err := New(Options{API: rights(t, &asked), Directory: account.New(account.Options{FilesOnly: true})}).Receive(request)
	var refusal *door.Refusal
	if !errors.As(err, &refusal) || refusal.Status != http.StatusForbidden || request.Header.Get("X-Muster-Token") != "" {
		t.Errorf("the error is %v", err)
	}
}
