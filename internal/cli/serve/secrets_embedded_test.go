//go:build embedded

package serve_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// hushed is a pipeline with a variable from a Secret.
const hushed = `metadata: {name: hushed}
spec:
  stages:
  - name: tell
    input: {dataset: digits}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key}}}]
    command: [sh, -c, 'echo $TOKEN']
`

// With the rights that the chart gives, the manager reads no Secret of a namespace: it
// says what lacks, and goes on once the namespace has given it.
func TestRightsToSecrets(t *testing.T) {
	server := rehearsal.StartCluster(t)
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("MUSTER_HOME", home)
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(dir)
	write(t, filepath.Join(dir, "images", "a.png"), "a")
	write(t, filepath.Join(dir, "pipeline.yaml"), hushed)
	ada := filepath.Join(home, "ada.kubeconfig")
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set manager.replicas=0,namespace.podSecurity=privileged", Says: "is applied"},
		{Args: "user add ada --lifetime 1h --file " + ada, Says: "ada"},
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "token"}, Data: map[string][]byte{"key": []byte("hush")}}
	asAda := server.As(t, ada)
	if err := asAda.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	serve(t, server, "--agents", "--door", standIn(t, server.Client), "--store-folder", t.TempDir(), "--default-image", "busybox")
	awaitDoor(t, asAda)
	asAda.Run(t, []rehearsal.Step{
		{Args: "data create digits", Says: "created"},
		{Args: "data put images digits", Says: "1 added"},
		{Args: "pipeline apply -f pipeline.yaml", Says: "created"},
	})
	var said string
	run := func(ctx context.Context) *v1alpha1.PipelineRun {
		var runs v1alpha1.PipelineRunList
		if err := asAda.Client.List(ctx, &runs, client.InNamespace("ada")); err != nil || len(runs.Items) != 1 {
			return &v1alpha1.PipelineRun{}
		}
		said = runs.Items[0].Status.Message
		return &runs.Items[0]
	}
	rehearsal.Eventually(t, "the run says which right lacks", func(ctx context.Context) bool {
		return strings.Contains(run(ctx).Status.Message, "the manager has no right to read Secret token of this namespace")
	})
	if !strings.Contains(said, "`kubectl -n ada create rolebinding muster-pipelines-secrets --clusterrole=muster-pipelines-secrets --serviceaccount=muster-system:muster-manager`") {
		t.Error(said)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "muster-pipelines-secrets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster-pipelines-secrets"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.SystemNamespace, Name: "muster-manager"}},
	}
	if err := server.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	var jobs v1alpha1.TrainingJobList
	rehearsal.Eventually(t, "the stage has a job", func(ctx context.Context) bool {
		run(ctx)
		return asAda.Client.List(ctx, &jobs, client.InNamespace("ada")) == nil && len(jobs.Items) == 1
	})
	if says := jobs.Items[0].Annotations[v1alpha1.AnnotationVersions]; says != `{"Secret/token":"`+string(secret.UID)+"/"+secret.ResourceVersion+`"}` {
		t.Errorf("its job says %s of %s/%s", says, secret.UID, secret.ResourceVersion)
	}
}
