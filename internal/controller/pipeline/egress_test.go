package pipeline

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset/egress"
	"github.com/muster-dev/muster/internal/gateway"
)

// abroad is a pipeline whose output is copied.
func abroad(name string) string {
	return strings.Replace(copies(name, ""), "']}", `'], output: {egress: "s3://backup/main/`+name+`"}}`, 1)
}

// keys are what the Secret says.
func keys(endpoint string) map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": gateway.Region, "AWS_ACCESS_KEY_ID": "MUEGRESS", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}
}

// copying waits until the status of the copy says something.
func (r *rig) copying(pipeline, says string) *v1alpha1.PipelineRun {
	r.Helper()
	run := r.finishUnless(pipeline, func(run *v1alpha1.PipelineRun) bool {
		return len(run.Status.Stages) > 0 && run.Status.Stages[0].Egress != nil && strings.Contains(run.Status.Stages[0].Egress.Message, says)
	})
	if Ended(run.Status.Phase) {
		r.Fatalf("it does not say %q: %s: %s", says, run.Status.Phase, run.Status.Message)
	}
	return run
}

// gate is a bucket that answers nothing until it is opened.
type gate struct {
	*httptest.Server
	open func()
	// came hears of the first request of each, by the folder of the bucket.
	came chan string
}

func newGate(t *testing.T) *gate {
	t.Helper()
	opened := make(chan struct{})
	g := &gate{open: sync.OnceFunc(func() { close(opened) }), came: make(chan string, 1000)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		g.came <- in.URL.Path
		select {
		case <-opened:
		case <-in.Context().Done():
		}
	}))
	t.Cleanup(func() {
		g.open()
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// Whoever may not read the Secret waits, in words, for as long as that takes; and then
// goes on.
func TestEgressWithoutRights(t *testing.T) {
	r := elsewhere(t, nil)
	there := service{&ref.Memory{}}
	r.secret(keys(r.serve(there)))
	watched, ok := r.server.(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be watched")
	}
	var mu sync.Mutex
	may := false
	r.runs.live = interceptor.NewClient(watched, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			mu.Lock()
			defer mu.Unlock()
			if _, secret := o.(*corev1.Secret); secret && !may {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	r.put("things", map[string]string{"a": "1"})
	r.apply(abroad("out"))
	run := r.copying("out", "`kubectl -n team create rolebinding muster-pipelines-secrets --clusterrole=muster-pipelines-secrets")
	if run.Status.Stages[0].Egress.Tries != 0 {
		t.Errorf("%+v", run.Status.Stages[0].Egress)
	}
	mu.Lock()
	may = true
	mu.Unlock()
	r.runs.deps.Now = later()
	if run = r.finish("out"); run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[0].Egress.Tries != 1 {
		t.Errorf("%s: %s: %+v", run.Status.Phase, run.Status.Message, run.Status.Stages[0].Egress)
	}
}

// Where a Secret leads to what the installation does not allow, nothing is sent; a name
// does not get around that.
func TestEgressIsGuarded(t *testing.T) {
	r := elsewhere(t, nil)
	g := newGate(t)
	r.machine.Egress = &Egress{AtOnce: 1, Copies: egress.Options{Transport: (&egress.Guard{}).Transport()}}
	r.secret(keys(strings.Replace(g.URL, "127.0.0.1", "localhost", 1)))
	r.put("things", map[string]string{"a": "1"})
	r.apply(abroad("out"))
	r.copying("out", "is this machine: name another service in AWS_ENDPOINT_URL, or have the installation allow it")
	select {
	case path := <-g.came:
		t.Errorf("it was asked for %s", path)
	default:
	}
	allowed := &egress.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	r.machine.Egress = &Egress{AtOnce: 1, Copies: egress.Options{Transport: allowed.Transport()}}
	r.secret(keys(r.serve(service{&ref.Memory{}})))
	r.runs.deps.Now = later()
	if run := r.finish("out"); run.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	r.machine.Egress = &Egress{Off: true}
	r.apply(abroad("out"))
	if p := r.look("out"); p.Status.Phase != v1alpha1.PipelineInvalid || !strings.Contains(p.Status.Message, "output.egress: this installation copies nothing elsewhere") {
		t.Errorf("%s: %s", p.Status.Phase, p.Status.Message)
	}
}

// One copy of a namespace is made at a time, and the next begins when it ends.
func TestEgressTakesTurns(t *testing.T) {
	r := elsewhere(t, nil)
	g := newGate(t)
	r.machine.Egress = &Egress{AtOnce: 2}
	r.secret(keys(g.URL))
	r.put("things", map[string]string{"a": "1"})
	for _, name := range []string{"one", "two"} {
		r.apply(abroad(name))
	}
	r.copying("one", "is being copied")
	<-g.came
	r.copying("two", "waits to be copied to s3://backup/main/two: other copies are made first")
	g.open()
	for _, name := range []string{"one", "two"} {
		if run := r.finish(name); run.Status.Phase != v1alpha1.RunSucceeded {
			t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
		}
	}
	var paths []string
	for len(g.came) > 0 {
		paths = append(paths, <-g.came)
	}
	if diff := cmp.Diff([]string{"/backup/main/two/a"}, paths); diff != "" {
		t.Error(diff)
	}
}

// A bucket that takes nothing loses its turn.
func TestEgressHasAPace(t *testing.T) {
	r := elsewhere(t, nil)
	g := newGate(t)
	r.machine.Egress = &Egress{AtOnce: 1, Copies: egress.Options{Pace: egress.Pace{Bytes: 1 << 20, In: 200 * time.Millisecond}}}
	r.secret(keys(g.URL))
	r.put("things", map[string]string{"a": "1"})
	r.apply(abroad("out"))
	r.copying("out", "the bucket is too slow: it took ")
	r.runs.exports.mu.Lock()
	defer r.runs.exports.mu.Unlock()
	if len(r.runs.exports.turns.going) > 0 {
		t.Errorf("it keeps its turn: %v", r.runs.exports.turns.going)
	}
}

// Another manager leads while a copy is made: it makes it.
func TestEgressMoves(t *testing.T) {
	before := elsewhere(t, nil)
	g := newGate(t)
	before.secret(keys(g.URL))
	before.put("things", map[string]string{"a": "1"})
	before.apply(abroad("out"))
	before.copying("out", "is being copied")
	<-g.came
	before.runs.stopAllExports()
	before.disk = "another"
	after := elsewhere(t, before)
	there := service{&ref.Memory{}}
	after.secret(keys(after.serve(there)))
	run := after.finish("out")
	if run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[0].Datums.Computed != 1 {
		t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	view, err := after.data().Dataset(there.heads).At(after.ctx, "main")
	after.must(err)
	if diff := cmp.Diff(map[string]string{"out/a": "1"}, after.texts(view)); diff != "" {
		t.Error(diff)
	}
}

// Runs that hold nothing any more are deleted: the copies of others go on.
func TestEgressOutlivesOtherRuns(t *testing.T) {
	r := elsewhere(t, nil)
	g := newGate(t)
	r.machine.Egress = &Egress{AtOnce: 1}
	r.secret(keys(g.URL))
	r.put("things", map[string]string{"a": "1"})
	r.apply(copies("past", ""))
	past := r.finish("past")
	dry := past.DeepCopy()
	dry.ObjectMeta = metav1.ObjectMeta{Namespace: space, Name: "dry", UID: "dry"}
	dry.Spec.DryRun = true
	r.must(r.server.Create(r.ctx, dry))
	r.apply(abroad("out"))
	r.copying("out", "is being copied")
	<-g.came
	for _, run := range []*v1alpha1.PipelineRun{past, dry} {
		r.must(r.server.Delete(r.ctx, run))
		_, err := r.runs.Reconcile(r.ctx, request(run.Name))
		r.must(err)
	}
	g.open()
	run := r.finish("out")
	if e := run.Status.Stages[0].Egress; run.Status.Phase != v1alpha1.RunSucceeded || e == nil || e.Tries != 1 {
		t.Errorf("%s: %s: %+v", run.Status.Phase, run.Status.Message, e)
	}
}
