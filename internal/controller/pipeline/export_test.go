package pipeline

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/gateway"
)

// service is an S3 service: Muster's own, with a bucket that is a dataset.
type service struct{ heads *ref.Memory }

// Datasets implements [gateway.Catalog].
func (s service) Datasets(context.Context, string) ([]gateway.Dataset, error) {
	return []gateway.Dataset{{Name: "backup"}}, nil
}

// Heads implements [gateway.Catalog].
func (s service) Heads(string, string) ref.Heads { return s.heads }

// Grant implements [gateway.Keyring].
func (s service) Grant(_ context.Context, key string) (gateway.Grant, error) {
	if key != "MUEGRESS" {
		return gateway.Grant{}, gateway.ErrNoKey
	}
	return gateway.Grant{Secret: "not-a-secret", Namespace: space, User: "egress"}, nil
}

// May implements [gateway.Keyring].
func (s service) May(context.Context, gateway.Grant, gateway.Verb, string) (bool, error) {
	return true, nil
}

// serve starts the service.
func (r *rig) serve(s service) (endpoint string) {
	r.Helper()
	g, err := gateway.New(gateway.Options{Stores: gateway.One{All: r.data(), Uploads: &backend.Memory{}}, Catalog: s, Keyring: s})
	r.must(err)
	listens := make(chan string, 1)
	r.group.Go(func() {
		if err := g.Serve(r.ctx, func(address string) { listens <- address }); err != nil && r.ctx.Err() == nil {
			r.Error(err)
		}
	})
	return <-listens
}

// secret makes or changes the Secret that says who copies.
func (r *rig) secret(values map[string]string) {
	r.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "muster-egress"}, Data: map[string][]byte{}}
	for key, value := range values {
		s.Data[key] = []byte(value)
	}
	if r.server.Create(r.ctx, s) != nil {
		r.must(r.server.Update(r.ctx, s))
	}
}

// TestEgress copies what a stage commits, then what a commit changed.
func TestEgress(t *testing.T) {
	r := newRig(t, nil)
	there := service{&ref.Memory{}}
	r.secret(map[string]string{"AWS_ENDPOINT_URL": r.serve(there), "AWS_REGION": gateway.Region, "AWS_ACCESS_KEY_ID": "MUEGRESS", "AWS_SECRET_ACCESS_KEY": "not-a-secret"})
	r.put("things", map[string]string{"a": "1", "d/b": "2"})
	r.apply(`
metadata: {name: out}
spec:
  stages:
  - {name: copy, input: {dataset: things}, command: [sh, -c, 'cp -r $MUSTER_INPUT_THINGS/. $MUSTER_OUTPUT'], output: {egress: "s3://backup/main/copies"}}
`)
	copied := func() map[string]string {
		t.Helper()
		view, err := r.data().Dataset(there.heads).At(r.ctx, "main")
		r.must(err)
		return r.texts(view)
	}
	run := r.succeed("out", 1)
	if e := run.Status.Stages[0].Egress; e == nil || e.Phase != v1alpha1.RunSucceeded || e.Files != 2 || e.Bytes != 2 || e.Tries != 1 {
		t.Fatalf("%+v", e)
	}
	if diff := cmp.Diff(map[string]string{"copies/a": "1", "copies/d/b": "2"}, copied()); diff != "" {
		t.Error(diff)
	}
	r.put("things", map[string]string{"a": "", "c": "345"})
	run = r.succeed("out", 1)
	if e := run.Status.Stages[0].Egress; e.Phase != v1alpha1.RunSucceeded || e.Files != 1 || e.Bytes != 3 {
		t.Errorf("%+v", e)
	}
	// What is no more stays there: it may be somebody else's.
	if diff := cmp.Diff(map[string]string{"copies/a": "1", "copies/c": "345", "copies/d/b": "2"}, copied()); diff != "" {
		t.Error(diff)
	}
}

// TestEgressTrouble is tried again, and then fails the run, in words.
func TestEgressTrouble(t *testing.T) {
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret map[string]string
		says   string
	}{
		"no Secret":    {nil, "there is no Secret muster-egress that says who copies: `kubectl create secret generic muster-egress"},
		"half of it":   {map[string]string{"AWS_ACCESS_KEY_ID": "MUEGRESS"}, "the Secret has to have AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
		"nobody there": {map[string]string{"AWS_ENDPOINT_URL": away, "AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			if c.secret != nil {
				r.secret(c.secret)
			}
			r.put("things", map[string]string{"a": "1"})
			r.apply(strings.Replace(copies("out", ""), "']}", `'], output: {egress: "s3://backup/main"}}`, 1))
			run := r.finishUnless("out", func(run *v1alpha1.PipelineRun) bool {
				return len(run.Status.Stages) > 0 && strings.Contains(run.Status.Message, "try 2 of 6 comes after a pause")
			})
			if !strings.Contains(run.Status.Message, c.says) || run.Status.Stages[0].Phase != v1alpha1.RunSucceeded {
				t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			r.runs.deps.Now = later()
			run = r.finish("out")
			if e := run.Status.Stages[0].Egress; run.Status.Phase != v1alpha1.RunFailed || e.Phase != v1alpha1.RunFailed || e.Tries != 6 || !strings.Contains(run.Status.Message, "its output is committed; copying to s3://backup/main: ") {
				t.Errorf("%s: %s: %+v", run.Status.Phase, run.Status.Message, e)
			}
		})
	}
}

// later is a clock that goes a day further each time it is asked.
func later() func() time.Time {
	var days atomic.Int64
	begin := time.Now()
	return func() time.Time { return begin.AddDate(0, 0, int(days.Add(1))) }
}
