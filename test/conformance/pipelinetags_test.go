//go:build conformance

package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
)

// tagged is a pipeline whose stages say which image they ran in: workers, and the member
// of a job.
const tagged = `metadata: {name: tagged}
spec:
  environment: {image: %q}
  stages:
  - name: stamp
    input: {dataset: words, glob: "/*"}
    command: [sh, -c, 'cat /version > $MUSTER_OUTPUT/$MUSTER_DATUM']
  - name: train
    input: {stage: stamp}
    training:
      framework: None
      checkpoints: {none: true}
      backoffLimit: 0
      roles: [{name: worker, gpus: 1, command: [sh, -c, 'cat /version $MUSTER_INPUT_STAMP/* > $MUSTER_OUTPUT/all']}]
`

// shop is a registry that lets in who has its password, and a platform that looks tags up
// there.
func (p *platform) shop(t *testing.T) *cluster.Registry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	registry, err := p.registry(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	registry.User, registry.Password = "ada", "secret"
	authority, err := os.ReadFile(registry.Authority)
	if err != nil {
		t.Fatal(err)
	}
	ours := (&author{TB: t, at: p, namespace: v1alpha1.SystemNamespace})
	ours.keep(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ours.namespace, Name: "authorities"}, Data: map[string]string{"ca.crt": string(authority)}})
	ours.letIn(registry)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := p.reinstall(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := p.reinstall(ctx, "--set", "manager.authorities=authorities", "--set", "pipelines.tags.lookUp=true", "--set", "pipelines.tags.secret=registry"); err != nil {
		t.Fatal(err)
	}
	return registry
}

// letIn keeps a Secret by which a registry lets in.
func (a *author) letIn(registry *cluster.Registry) {
	a.Helper()
	who := base64.StdEncoding.EncodeToString([]byte(registry.User + ":" + registry.Password))
	a.keep(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, registry.Host, who)},
	})
}

// pulls has the pods of the author's namespace be let in, too.
func (a *author) pulls(registry *cluster.Registry) {
	a.Helper()
	a.letIn(registry)
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = a.namespace, "default"
	patch := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"imagePullSecrets": [{"name": "registry"}]}`))
	if err := a.at.api.Patch(a.Context(), account, patch); err != nil {
		a.Fatal(err)
	}
}

// TestPipelineTags: where tags are looked up, what one names counts for results and is
// what runs, on nodes that pull it for themselves; a tag that moves has all computed again
// that was computed in another image, and nothing once it is moved back.
func TestPipelineTags(t *testing.T) {
	if the.registry == nil || the.counts {
		return // images come from no registry there, or there are no stages
	}
	shell, err := cluster.Shell(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	registry := the.shop(t)
	onAgents(t) // once the manager has started where these are not
	push := func(version string) {
		t.Helper()
		image := shell
		image.Files = append(image.Files[:len(image.Files):len(image.Files)], cluster.File{To: "/version", Content: version + "\n"})
		if err := registry.Push("team/box:1", image); err != nil {
			t.Fatal(err)
		}
	}
	a := the.author(t)
	a.pulls(registry)
	ran := func(stamp, train int64) {
		t.Helper()
		a.finishes("tagged", 2*time.Minute)
		if diff := cmp.Diff(map[string]int64{"stamp": stamp, "train": train}, a.computed("tagged")); diff != "" {
			r := a.muster("pipeline", "explain", "tagged")
			t.Errorf("computed: %s%s%s", diff, r.Stdout, r.Stderr)
		}
	}
	words := map[string]string{"a": "one\n", "b": "two\n"}
	a.says("created", "data", "create", "words")
	a.put("words", words)
	push("first")
	a.apply(fmt.Sprintf(tagged, registry.Host+"/team/box:1"))
	ran(2, 1)
	a.says("first\nfirst\nfirst\n", "data", "cat", "tagged-train:/all")

	push("second")
	words["c"] = "three\n"
	a.put("words", words)
	ran(3, 1)
	a.says("second\nsecond\nsecond\nsecond\n", "data", "cat", "tagged-train:/all")
	a.says("environment: image: sha256:", "pipeline", "explain", "tagged", "stamp")

	push("first")
	words["d"] = "four\n"
	a.put("words", words)
	ran(2, 1)
	a.says("first\nfirst\nfirst\nfirst\nfirst\n", "data", "cat", "tagged-train:/all")

	other := the.author(t)
	other.says("created", "data", "create", "words")
	other.put("words", words)
	other.apply(strings.Replace(fmt.Sprintf(tagged, registry.Host+"/team/box:9"), "tagged", "none", 1))
	if r := other.muster("pipeline", "wait", "none", "--timeout", "50s"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "has no such image or tag") {
		t.Errorf("a tag that nobody has: code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
