//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// telling is a pipeline whose stages write what their variables are: one by workers, and
// one by the members of a job.
const telling = `metadata: {name: telling}
spec:
  environment: {image: %q}
  stages:
  - name: tell
    input: {dataset: things, glob: "/*"}
    gpus: 1
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key}}}]
    command: [sh, -c, 'echo told $TOKEN > $MUSTER_OUTPUT/$MUSTER_DATUM']
  - name: train
    input: {stage: tell}
    training:
      environment: {image: %[1]q}
      framework: None
      checkpoints: {none: true}
      backoffLimit: 0
      env: [{name: COLOUR, valueFrom: {configMapKeyRef: {name: colours, key: sky}}}]
      roles:
      - {name: worker, gpus: 1, command: [sh, -c, 'echo $(cat $MUSTER_INPUT_TELL/*) $COLOUR > $MUSTER_OUTPUT/all'], env: [{name: ALSO, valueFrom: {secretKeyRef: {name: token, key: other, optional: true}}}]}
`

// keep makes or changes a Secret, or a ConfigMap, of one value.
func (a *author) keep(o client.Object) {
	a.Helper()
	ctx := a.Context()
	fresh, _ := o.DeepCopyObject().(client.Object)
	if err := a.at.api.Get(ctx, client.ObjectKeyFromObject(o), fresh); err == nil {
		o.SetResourceVersion(fresh.GetResourceVersion())
		err = a.at.api.Update(ctx, o)
		if err != nil {
			a.Fatal(err)
		}
		return
	}
	if err := a.at.api.Create(ctx, o); err != nil {
		a.Fatal(err)
	}
}

func (a *author) token(value string) {
	a.Helper()
	a.keep(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "token"}, Data: map[string][]byte{"key": []byte(value)}})
}

func (a *author) colour(value string) {
	a.Helper()
	a.keep(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "colours"}, Data: map[string]string{"sky": value}})
}

// rights gives the manager what it asks for, by the command that the run says.
func (a *author) rights() {
	a.Helper()
	if !a.at.apart {
		return
	}
	var command string
	harness.Eventually(a, within, "waiting for what right lacks", func() error {
		r := a.muster("pipeline", "runs", "-o", "json")
		_, rest, found := strings.Cut(r.Stdout, "`kubectl ")
		command, _, _ = strings.Cut(rest, "`")
		if !found || !strings.Contains(r.Stdout, "the manager has no right to read") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	if r := a.at.kubectl(a, "", strings.Fields(command)...); r.Code != 0 {
		a.Fatalf("kubectl %s: %s%s", command, r.Stdout, r.Stderr)
	}
}

// TestPipelineSecrets: variables come from Secrets and ConfigMaps by the kubelet, count by
// their versions, and are nowhere in what Muster says. On a cluster the namespace has to
// give the manager the right to read versions, and is told how.
func TestPipelineSecrets(t *testing.T) {
	if the.counts {
		return // a pipeline is refused there: TestPipeline
	}
	onAgents(t)
	a := the.author(t)
	a.token("hush-1")
	a.colour("blue")
	a.apply(fmt.Sprintf(telling, the.image))
	a.says("created", "data", "create", "things")
	a.put("things", map[string]string{"a": "one\n", "b": "two\n"})
	a.rights()
	expect := func(want string, tell, train int64) {
		t.Helper()
		a.says("", "pipeline", "wait", "telling", "--timeout", "50s")
		a.says(want, "data", "cat", "telling-train:/all")
		if got := a.computed("telling"); got["tell"] != tell || got["train"] != train {
			t.Errorf("%s: computed %v, want %d and %d", want, got, tell, train)
		}
	}
	expect("told hush-1 told hush-1 blue\n", 2, 1)
	// The commit is of one file, and the Secret has all of them computed.
	a.token("hush-2")
	a.put("things", map[string]string{"c": "three\n"})
	expect("told hush-2 told hush-2 told hush-2 blue\n", 3, 1)
	a.colour("grey")
	a.put("things", map[string]string{"d": "four\n"})
	expect("told hush-2 told hush-2 told hush-2 told hush-2 grey\n", 1, 1)
	for _, kind := range []string{"pipelines", "pipelineruns", "trainingjobs", "gangs", "pods", "events"} {
		r := the.kubectl(t, "", "-n", a.namespace, "get", kind, "-o", "yaml")
		if r.Code != 0 || strings.Contains(r.Stdout, "hush") {
			t.Errorf("%s: %s%s", kind, r.Stdout, r.Stderr)
		}
	}
	r := a.muster("pipeline", "explain", "telling", "--recipe")
	if !strings.Contains(r.Stdout, "Secret token, key key, version") || strings.Contains(r.Stdout+r.Stderr, "hush") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}

// bucket is an S3 service of the test's own, which the platform's manager reaches: with
// one bucket, named backup, and one key.
type bucket struct{ heads *ref.Memory }

// Datasets implements [gateway.Catalog].
func (bucket) Datasets(context.Context, string) ([]gateway.Dataset, error) {
	return []gateway.Dataset{{Name: "backup"}}, nil
}

// Heads implements [gateway.Catalog].
func (b bucket) Heads(string, string) ref.Heads { return b.heads }

// Grant implements [gateway.Keyring].
func (bucket) Grant(_ context.Context, key string) (gateway.Grant, error) {
	if key != "MUEGRESS" {
		return gateway.Grant{}, gateway.ErrNoKey
	}
	return gateway.Grant{Secret: "not-a-secret", Namespace: "backup", User: "egress"}, nil
}

// May implements [gateway.Keyring].
func (bucket) May(context.Context, gateway.Grant, gateway.Verb, string) (bool, error) {
	return true, nil
}

// serveBucket serves one, and returns where, and what is in it.
func serveBucket(t *testing.T) (endpoint string, contents func() map[string]string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", the.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// This machine's address, as the platform sees it.
	way, err := (&net.Dialer{}).DialContext(t.Context(), "udp", server.Host)
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(way.LocalAddr().String())
	if err := errors.Join(err, way.Close()); err != nil {
		t.Fatal(err)
	}
	probe, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := data.Open(t.Context(), data.Options{Backend: &backend.Memory{}})
	if err != nil {
		t.Fatal(err)
	}
	b := bucket{&ref.Memory{}}
	g, err := gateway.New(gateway.Options{Stores: gateway.One{All: store, Uploads: &backend.Memory{}}, Catalog: b, Keyring: b, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	listens, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- g.Serve(ctx, func(address string) { listens <- address }) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, store.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case endpoint = <-listens:
	case err := <-done:
		done <- err
		t.Fatalf("serving a bucket: %v", err)
	}
	return endpoint, func() map[string]string {
		view, err := store.Dataset(b.heads).At(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		err = view.Walk(t.Context(), "", func(e data.Entry) error {
			file, err := view.Open(t.Context(), e.Path)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(file)
			out[e.Path] = string(text)
			return errors.Join(err, file.Close())
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// sending is a pipeline whose output is copied to the bucket.
const sending = `metadata: {name: sending}
spec:
  environment: {image: %q}
  stages:
  - name: copy
    input: {dataset: parcels}
    gpus: 1
    command: [sh, -c, 'cp $MUSTER_INPUT_PARCELS/* $MUSTER_OUTPUT']
    output: {egress: "s3://backup/main/copies"}
`

// TestPipelineEgress: what a stage commits is copied to a bucket, as a Secret says which
// the namespace has let the manager read; where that leads to the manager itself, nothing
// is sent.
func TestPipelineEgress(t *testing.T) {
	if the.counts {
		return // a pipeline is refused there: TestPipeline
	}
	onAgents(t)
	endpoint, contents := serveBucket(t)
	a := the.author(t)
	secret := func(endpoint string) {
		t.Helper()
		a.keep(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "muster-egress"}, StringData: map[string]string{
			"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": gateway.Region, "AWS_ACCESS_KEY_ID": "MUEGRESS", "AWS_SECRET_ACCESS_KEY": "not-a-secret",
		}})
	}
	if the.apart {
		secret("http://localhost:8080") // where the manager has its metrics
	} else {
		secret(endpoint)
	}
	a.apply(fmt.Sprintf(sending, the.image))
	a.says("created", "data", "create", "parcels")
	a.put("parcels", map[string]string{"a": "one\n", "b": "two\n"})
	a.rights()
	if the.apart {
		harness.Eventually(t, within, "waiting for the refusal", func() error {
			r := a.muster("pipeline", "runs", "sending", "-o", "json")
			if !strings.Contains(r.Stdout, "is this machine: name another service in AWS_ENDPOINT_URL") {
				return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
			}
			return nil
		})
		secret(endpoint)
	}
	a.says("", "pipeline", "wait", "sending", "--timeout", "55s")
	if diff := cmp.Diff(map[string]string{"copies/a": "one\n", "copies/b": "two\n"}, contents()); diff != "" {
		t.Error(diff)
	}
	a.put("parcels", map[string]string{"b": "2\n", "c": "three\n"})
	a.says("", "pipeline", "wait", "sending", "--timeout", "55s")
	if diff := cmp.Diff(map[string]string{"copies/a": "one\n", "copies/b": "2\n", "copies/c": "three\n"}, contents()); diff != "" {
		t.Error(diff)
	}
}
