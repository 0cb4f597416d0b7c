//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	if err := the.api.Get(ctx, client.ObjectKeyFromObject(o), fresh); err == nil {
		o.SetResourceVersion(fresh.GetResourceVersion())
		err = the.api.Update(ctx, o)
		if err != nil {
			a.Fatal(err)
		}
		return
	}
	if err := the.api.Create(ctx, o); err != nil {
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
	if !the.apart {
		return
	}
	var command string
	harness.Eventually(a, within, "waiting for what right lacks", func() error {
		r := the.muster(a, "-n", a.namespace, "pipeline", "runs", "-o", "json")
		_, rest, found := strings.Cut(r.Stdout, "`kubectl ")
		command, _, _ = strings.Cut(rest, "`")
		if !found || !strings.Contains(r.Stdout, "the manager has no right to read") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	if r := the.kubectl(a, "", strings.Fields(command)...); r.Code != 0 {
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
	a := &author{TB: t, namespace: the.namespace(t)}
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
	// Each time something else is read that differs in nothing but its commit.
	again := func(n int) {
		t.Helper()
		a.put("things", map[string]string{"x": fmt.Sprint(n)})
		a.says("", "data", "rm", "things:/x")
	}
	expect("told hush-1 told hush-1 blue\n", 2, 1)
	a.token("hush-2")
	again(1)
	expect("told hush-2 told hush-2 blue\n", 2, 1)
	a.colour("grey")
	again(2)
	expect("told hush-2 told hush-2 grey\n", 0, 1)
	for _, kind := range []string{"pipelines", "pipelineruns", "trainingjobs", "gangs", "pods", "events"} {
		r := the.kubectl(t, "", "-n", a.namespace, "get", kind, "-o", "yaml")
		if r.Code != 0 || strings.Contains(r.Stdout, "hush") {
			t.Errorf("%s: %s%s", kind, r.Stdout, r.Stderr)
		}
	}
	r := the.muster(t, "-n", a.namespace, "pipeline", "explain", "telling", "--recipe")
	if !strings.Contains(r.Stdout, "Secret token, key key, version") || strings.Contains(r.Stdout+r.Stderr, "hush") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}
