package door

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/visibility"
)

// house is an open door, before an API server that knows a few tokens by heart.
type house struct {
	testing.TB
	api     client.Client
	reviews atomic.Int32
	door    *Door
	mine    *source.Store
	data    *warehouse.Warehouse
	reports *hears
	// shift is who gives out datums, if this replica does.
	shift atomic.Pointer[http.ServeMux]
}

// dataQuota is how much data a namespace may keep.
const dataQuota = 16 << 20

// status is what the API server says of a token.
func status(name string, audiences []string, extra map[string]authenticationv1.ExtraValue) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: audiences, User: authenticationv1.UserInfo{Username: name, Extra: extra},
	}
}

var (
	ours   = []string{v1alpha1.DoorAudience}
	onNode = map[string]authenticationv1.ExtraValue{nodeExtra: {"node-1"}}
	tokens = map[string]authenticationv1.TokenReviewStatus{
		"ada":  status("system:serviceaccount:ada:muster-door", ours, nil),
		"bob":  status("system:serviceaccount:bob:muster-door", ours, nil),
		"cleo": status("system:serviceaccount:cleo:muster-door", ours, nil),
		"dora": status("system:serviceaccount:dora:muster-door", ours, nil),
		"node": status("system:serviceaccount:muster-system:muster-node", ours, onNode),
		// As the API server makes them: who asked for it is an audience.
		token("muster", "muster-user:ada@example.com"): status("system:serviceaccount:ada:muster-door", ours, nil),
	}
)

// token is one for audiences, which nobody has signed.
func token(audiences ...string) string {
	text, _ := json.Marshal(map[string]any{"aud": audiences}) // strings can be written
	return "e30." + base64.RawURLEncoding.EncodeToString(text) + ".c2ln"
}

// Whose plan is made says the token, and not what is sent.
func TestWhoAsksForAPlan(t *testing.T) {
	h := open(t, false)
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "mnist", Annotations: map[string]string{
		v1alpha1.AnnotationSubmitter: "eve@example.com", v1alpha1.AnnotationAuthenticated: "true",
	}}}
	for who, want := range map[string]string{token("muster", "muster-user:ada@example.com"): "ada@example.com", "ada": ""} {
		var got map[string]string
		if err := h.as(who).Ask(t.Context(), "ada", "/plan", job, &got); err != nil || got["user"] != want || got["plan"] != "ada/mnist" {
			t.Errorf("%v, %v, want user %q", got, err, want)
		}
	}
	for name, c := range map[string]struct{ token, want string }{
		"one":          {token("muster", "muster-user:ada"), "ada"},
		"an odd name":  {token("muster-user:oidc:https://example.com#ada", "muster"), "oidc:https://example.com#ada"},
		"nobody":       {token("muster"), ""},
		"two of them":  {token("muster-user:ada", "muster-user:eve"), ""},
		"no token":     {"ada", ""},
		"not readable": {"e30.%%%.c2ln", ""},
		"no audiences": {"e30.e30.c2ln", ""},
		"another form": {"e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"muster-user:ada"}`)) + ".c2ln", ""},
	} {
		if got := claimsIn(c.token).user; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func open(t testing.TB, keeps bool, also ...func(*Options)) *house {
	t.Helper()
	h := &house{TB: t, reports: &hears{said: map[string]map[types.UID]v1alpha1.PodProgress{}}}
	scheme := runtime.NewScheme()
	h.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	h.api = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			review, is := o.(*authenticationv1.TokenReview)
			if !is {
				return c.Create(ctx, o, opts...)
			}
			h.reviews.Add(1)
			review.Status = tokens[review.Spec.Token]
			return nil
		},
	}).Build()
	options := Options{Address: "127.0.0.1:0", API: h.api, Pods: h.api, Namespace: "muster-system", Identity: "test_1", Answers: says{}, Reports: h.reports}
	options.Shifts = func(string) http.Handler {
		if m := h.shift.Load(); m != nil {
			return m
		}
		return nil
	}
	if keeps {
		folder, err := shelf.OpenFolder(t.TempDir())
		h.must(err)
		options.Code = depot.New(depot.Options{Shelf: folder})
		h.data, err = warehouse.Open(warehouse.Options{Folder: t.TempDir(), Quota: dataQuota})
		h.must(err)
		options.Data = h.data
	}
	for _, change := range also {
		change(&options)
	}
	h.door = New(options)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.door.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var err error
	h.mine, err = source.Open(filepath.Join(t.TempDir(), "code"))
	h.must(err)
	return h
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// as is somebody with a token.
func (h *house) as(token string) *visitor.Visitor {
	return visitor.Direct(visitor.DirectOptions{
		Address: "https://" + h.door.Address(),
		Token:   func(context.Context) (string, error) { return token, nil },
		// As an agent that starts with the door: the certificate may not be there
		// yet.
		Certificates: func(ctx context.Context) ([]byte, error) {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				there := &corev1.ConfigMap{}
				if h.api.Get(ctx, client.ObjectKey{Namespace: "muster-system", Name: v1alpha1.DoorName}, there) == nil {
					var all bytes.Buffer
					for _, text := range there.Data {
						all.WriteString(text)
					}
					return all.Bytes(), nil
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-tick.C:
				}
			}
		},
	})
}

func (h *house) code(text string) string {
	h.Helper()
	dir := h.TempDir()
	h.must(os.WriteFile(filepath.Join(dir, "train.py"), []byte(text), 0o644))
	h.must(os.WriteFile(filepath.Join(dir, "same.py"), []byte("same"), 0o644))
	result, err := h.mine.Snapshot(h.Context(), dir, source.Options{})
	h.must(err)
	return result.Digest
}

// says answers with what it was asked.
type says struct{}

func (says) Why(_ context.Context, _ visibility.Rule, namespace, job string) (any, error) {
	return map[string]string{"why": namespace + "/" + job}, nil
}

func (says) Plan(_ context.Context, _ visibility.Rule, user string, job *v1alpha1.TrainingJob) (any, error) {
	return map[string]string{"plan": job.Namespace + "/" + job.Name, "user": user}, nil
}

func (says) Top(_ context.Context, rule visibility.Rule) (any, error) {
	return map[string]string{"top": rule.Own}, nil
}

func (says) Queues(_ context.Context, rule visibility.Rule) (any, error) { return rule, nil }

func (says) Status(_ context.Context, rule visibility.Rule) (any, error) { return rule, nil }

func (says) Doctor(_ context.Context, rule visibility.Rule) (any, error) { return rule, nil }

// hears keeps what agents say.
type hears struct {
	mu   sync.Mutex
	said map[string]map[types.UID]v1alpha1.PodProgress
	data map[string]map[types.UID]v1alpha1.PodData
}

func (h *hears) Take(_ context.Context, node string, said map[types.UID]v1alpha1.PodProgress) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[node] = said
	return nil
}

func (h *hears) TakeData(_ context.Context, node string, said map[types.UID]v1alpha1.PodData) ([]types.UID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.data = map[string]map[types.UID]v1alpha1.PodData{node: said}
	return []types.UID{"stranger"}, nil
}

// How the data of pods stands is said by agents, who hear which pods are not known.
func TestWhoSaysHowDataStands(t *testing.T) {
	h := open(t, false)
	said := map[types.UID]v1alpha1.PodData{"pod": {Reason: v1alpha1.DataFetching, Message: "fetching digits@main"}, "stranger": {Reason: v1alpha1.DataMounted}}
	unknown, err := h.as("node").Arrivals(t.Context(), said)
	if err != nil || len(unknown) != 1 || unknown[0] != "stranger" {
		t.Fatalf("unknown are %v; %v", unknown, err)
	}
	if diff := cmp.Diff(map[string]map[types.UID]v1alpha1.PodData{"node-1": said}, h.reports.data); diff != "" {
		t.Errorf("heard (-said +heard):\n%s", diff)
	}
	if _, err := h.as("ada").Arrivals(t.Context(), said); !visitor.Is(err, http.StatusForbidden) {
		t.Errorf("a tenant: %v", err)
	}
}

// How far pods are is said by agents, each in the name of its own node.
func TestWhoSaysHowFarPodsAre(t *testing.T) {
	h := open(t, false)
	done := int64(250_000)
	said := map[types.UID]v1alpha1.PodProgress{"pod": {DoneMillionths: &done}}
	if err := h.as("node").Report(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[types.UID]v1alpha1.PodProgress{"node-1": said}, h.reports.said); diff != "" {
		t.Errorf("heard (-said +heard):\n%s", diff)
	}
	many := map[types.UID]v1alpha1.PodProgress{}
	for i := range 20_000 {
		many[types.UID(fmt.Sprintf("%036d", i))] = v1alpha1.PodProgress{DoneMillionths: &done}
	}
	for name, tt := range map[string]struct {
		err    error
		status int
	}{
		"a tenant":                     {h.as("ada").Report(t.Context(), said), http.StatusForbidden},
		"somebody forged":              {h.as("forged").Report(t.Context(), said), http.StatusUnauthorized},
		"an agent that goes on and on": {h.as("node").Report(t.Context(), many), http.StatusRequestEntityTooLarge},
	} {
		if !visitor.Is(tt.err, tt.status) {
			t.Errorf("%s: %v, want status %d", name, tt.err, tt.status)
		}
	}
	if len(h.reports.said["node-1"]) != 1 {
		t.Errorf("%d pods were heard of", len(h.reports.said["node-1"]))
	}
}

func TestCodeGoesInOnceAndOutChecked(t *testing.T) {
	h := open(t, true)
	ada, digest := h.as("ada"), h.code("print(1)")
	for i, want := range []int{2, 0} {
		sent, err := ada.Send(t.Context(), "ada", h.mine, digest, nil)
		if err != nil || sent.Contents != want {
			t.Fatalf("run %d: %+v %v, want %d contents", i+1, sent, err, want)
		}
	}
	if sent, err := ada.Send(t.Context(), "ada", h.mine, h.code("print(2)"), nil); err != nil || sent.Contents != 1 {
		t.Errorf("after a change: %+v %v, want 1 content", sent, err)
	}
	dst := filepath.Join(t.TempDir(), "code")
	h.must(ada.Fetch(t.Context(), "ada", digest, dst))
	if text, err := os.ReadFile(filepath.Join(dst, "train.py")); err != nil || string(text) != "print(1)" {
		t.Errorf("%q %v", text, err)
	}
	if got := h.reviews.Load(); got != 1 {
		t.Errorf("the API server was asked %d times who this is", got)
	}
}

func TestWhoMayWhat(t *testing.T) {
	h := open(t, true)
	digest := h.code("print(1)")
	if _, err := h.as("ada").Send(t.Context(), "ada", h.mine, digest, nil); err != nil {
		t.Fatal(err)
	}
	inline := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"snapshot": digest}}}
	for namespace, node := range map[string]string{"ada": "node-1", "bob": "node-2"} {
		h.must(h.api.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "member"},
			Spec:       corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "code", VolumeSource: inline}}},
		}))
	}
	fetch := func(token, namespace, digest string) error {
		return h.as(token).Fetch(t.Context(), namespace, digest, filepath.Join(t.TempDir(), "code"))
	}
	answer := func(token, namespace, path string) error {
		var got map[string]string
		return h.as(token).Ask(t.Context(), namespace, path, nil, &got)
	}
	other := h.code("print(2)")
	for name, tt := range map[string]struct {
		err    error
		status int
	}{
		"one's own":                            {fetch("ada", "ada", digest), 0},
		"another's":                            {fetch("bob", "ada", digest), 403},
		"one's own, of which another has it":   {fetch("bob", "bob", digest), 404},
		"a node's, that a pod on it names":     {fetch("node", "ada", digest), 0},
		"no digest":                            {fetch("ada", "ada", "sha256:x"), 400},
		"no token that the API server knows":   {fetch("forged", "ada", digest), 401},
		"one's own answers":                    {answer("ada", "ada", "/why/job"), 0},
		"one's own view":                       {answer("ada", "ada", "/top"), 0},
		"another's answers":                    {answer("bob", "ada", "/why/job"), 403},
		"one's own pod":                        {answer("ada", "ada", "/why/pod/debug"), 0},
		"another's pod":                        {answer("bob", "ada", "/why/pod/debug"), 403},
		"another's pod, by a path":             {answer("bob", "bob", "/why/..%2f..%2fada/why/pod/debug"), 404},
		"a node's pod":                         {answer("node", "ada", "/why/pod/debug"), 403},
		"a pod, without a token":               {answer("forged", "ada", "/why/pod/debug"), 401},
		"no name":                              {answer("ada", "ada", "/why/pod/"), 404},
		"another's view":                       {answer("bob", "ada", "/top"), 403},
		"a node's answers":                     {answer("node", "ada", "/why/job"), 403},
		"nothing of that name":                 {answer("ada", "ada", "/secrets"), 404},
		"nothing of that name, without a name": {answer("forged", "ada", "/secrets"), 401},
	} {
		switch {
		case tt.status == 0 && tt.err != nil, tt.status != 0 && !visitor.Is(tt.err, tt.status):
			t.Errorf("%s: %v, want status %d", name, tt.err, tt.status)
		}
	}
	// What a node has no pod for it does not get, at once: the agent is told to
	// come again, which takes longer than a test should.
	for name, get := range map[string][2]string{"of another node": {"bob", digest}, "that no pod names": {"ada", other}} {
		if err := h.door.mayRead(t.Context(), Caller{Node: "node-1"}, get[0], get[1]); refusalOf(err).Status != http.StatusForbidden {
			t.Errorf("a node's, %s: %v", name, err)
		}
	}
	if _, err := h.as("bob").Send(t.Context(), "ada", h.mine, other, nil); !visitor.Is(err, 403) {
		t.Errorf("sending into another's namespace: %v", err)
	}
	if _, err := h.as("node").Send(t.Context(), "ada", h.mine, other, nil); !visitor.Is(err, 403) {
		t.Errorf("a node that sends: %v", err)
	}
}

// TestWhyOfWhat: the words of a path come to the answers as they were meant, and always with the
// namespace for which the caller speaks.
func TestWhyOfWhat(t *testing.T) {
	h := open(t, false)
	for path, want := range map[string]string{
		"/why/mnist": "ada/mnist", "/why/pod/debug": "ada/pod/debug", "/why/gang/a": "ada/gang/a", "/why/pod%2fdebug": "ada/pod/debug",
		"/why/secret/x": "ada/secret/x", "/why/pod/%2e%2e": "ada/pod/..", "/why/%2e%2e%2fbob/x": "ada/../bob/x", "/why/pod/a%252fb": "ada/pod/a%2fb",
	} {
		var got map[string]string
		if err := h.as("ada").Ask(t.Context(), "ada", path, nil, &got); err != nil || got["why"] != want {
			t.Errorf("%s: %v, %v, want %s", path, got, err, want)
		}
	}
}

func TestWhoThisIs(t *testing.T) {
	for name, tt := range map[string]struct {
		status authenticationv1.TokenReviewStatus
		want   Caller
		says   string
	}{
		"a namespace's":        {tokens["ada"], Caller{Namespace: "ada"}, ""},
		"a node's":             {tokens["node"], Caller{Node: "node-1"}, ""},
		"nobody":               {authenticationv1.TokenReviewStatus{Audiences: ours}, Caller{}, "has ended"},
		"the API server's own": {status("system:serviceaccount:ada:muster-door", []string{"https://kubernetes.default.svc"}, nil), Caller{}, "audience"},
		"of no audience":       {status("system:serviceaccount:ada:muster-door", nil, nil), Caller{}, "audience"},
		"another account":      {status("system:serviceaccount:ada:default", ours, nil), Caller{}, "may not use the door"},
		"a person":             {status("muster-door", ours, nil), Caller{}, "may not use the door"},
		"an agent elsewhere":   {status("system:serviceaccount:ada:muster-node", ours, onNode), Caller{}, "may not use the door"},
		"an agent of no node":  {status("system:serviceaccount:muster-system:muster-node", ours, nil), Caller{}, "not bound to a pod"},
	} {
		v := judge(&tt.status, "muster-system")
		if !cmp.Equal(v.caller, tt.want) || (v.err == nil) != (tt.says == "") || v.err != nil && !strings.Contains(v.err.Error(), tt.says) {
			t.Errorf("%s: %+v %v, want %+v %q", name, v.caller, v.err, tt.want, tt.says)
		}
	}
}

func TestNoStoreSaysWhatToSet(t *testing.T) {
	h := open(t, false)
	digest := h.code("print(1)")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "/", http.NoBody)
	h.must(err)
	request.SetPathValue("namespace", "ada")
	request.SetPathValue("digest", digest)
	err = h.door.takeCode(nil, request, Caller{Namespace: "ada"})
	if refusal := refusalOf(err); refusal.Status != http.StatusServiceUnavailable || !strings.Contains(refusal.Text, "store.persistentVolumeClaim") {
		t.Errorf("%v", err)
	}
}

// TestPublish keeps what other replicas have published, while it is of use.
func TestPublish(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := open(t, false)
	replica := func(name string) *keeper {
		return &keeper{opts: Options{API: h.api, Namespace: "elsewhere", Identity: name, Now: func() time.Time { return now }}}
	}
	names := func() string {
		there := &corev1.ConfigMap{}
		h.must(h.api.Get(t.Context(), client.ObjectKey{Namespace: "elsewhere", Name: v1alpha1.DoorName}, there))
		var out []string
		for _, name := range []string{"a.crt", "b.crt"} {
			if text := there.Data[name]; text != "" {
				out = append(out, name+":"+strings.Repeat("I", strings.Count(text, "BEGIN CERTIFICATE")))
			}
		}
		return strings.Join(out, " ")
	}
	for _, step := range []struct {
		who   string
		later time.Duration
		want  string
	}{
		{"a", 0, "a.crt:I"},
		{"b", time.Hour, "a.crt:I b.crt:I"},
		{"b", renewEvery, "a.crt:I b.crt:II"}, // the one before is still met
		{"b", renewEvery, "b.crt:II"},
	} {
		now = now.Add(step.later)
		h.must(replica(step.who).renew(t.Context()))
		if got := names(); got != step.want {
			t.Errorf("after %s: %s, want %s", step.who, got, step.want)
		}
	}
}
