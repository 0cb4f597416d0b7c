//go:build embedded

package user_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/tenant"
)

// TestUsers lives through a user's life with the kubeconfig that they are
// given.
func TestUsers(t *testing.T) {
	server := rehearsal.StartCluster(t)
	dir := t.TempDir()
	ada, eve := filepath.Join(dir, "ada.kubeconfig"), filepath.Join(dir, "eve.kubeconfig")
	server.Run(t, []rehearsal.Step{
		{Args: "user add ada", Code: 3, Says: "Muster is not installed on this cluster"},
		{Args: "install --no-wait --set manager.replicas=0", Says: "is applied"},
		{Args: "user list", Says: "There are no users yet"},
		{Args: "user add Ada", Code: 2, Says: "is no name for a user"},
		{Args: "user add kube-system", Code: 1, Says: "not a user's of Muster"},
		{Args: "user add ada --lifetime 1s", Code: 2, Says: "too short"},
		{Args: "user add ada --queue vision --lifetime 1h --file " + ada, Says: "may use queue vision, which is new"},
		{Args: "user add ada --queue vision --lifetime 1h --file " + ada, Says: "may use queue vision\n"},
		{Args: "user add eve --file " + eve, Says: "may use queue eve, which is new"},
	})
	checkFile(t, ada)
	awaitPolicies(t, server, ada)
	t.Run("what is theirs", func(t *testing.T) {
		server.As(t, ada).Run(t, []rehearsal.Step{
			{Args: "run --detach --name mnist --code none -- true", Says: "mnist"},
			{Args: "get", Says: "mnist"},
			{Args: "describe mnist", Says: "system:serviceaccount:ada:ada"},
			{Args: "run --detach --name theirs --code none --queue eve -- true", Code: 1, Says: "may not use queue eve in namespace ada"},
			{Args: "get -n eve", Code: 1, Says: "may not"},
			{Args: "run --detach --name theirs --code none -n eve -- true", Code: 1, Says: "may not"},
			{Args: "user add mallory", Code: 1, Says: "may not"},
			{Args: "user list", Code: 1, Says: "may not"},
			{Args: "install", Code: 1, Says: "you may not install Muster here; what is missing: get namespaces"},
			{Args: "uninstall --yes", Code: 1, Says: "you may not remove Muster here"},
		})
		server.As(t, eve).Run(t, []rehearsal.Step{
			{Args: "get -n ada", Code: 1, Says: "may not"},
			{Args: "delete -n ada mnist", Code: 1, Says: "may not"},
			{Args: "suspend -n ada mnist", Code: 1, Says: "may not"},
		})
		job := &v1alpha1.TrainingJob{}
		if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: "ada", Name: "mnist"}, job); err != nil {
			t.Fatal(err)
		}
		if job.Spec.Queue != "vision" || job.Annotations[v1alpha1.AnnotationSubmitter] != "system:serviceaccount:ada:ada" {
			t.Errorf("queue %q, submitter %q", job.Spec.Queue, job.Annotations[v1alpha1.AnnotationSubmitter])
		}
		server.As(t, ada).Run(t, []rehearsal.Step{{Args: "suspend mnist --no-wait", Says: "mnist"}})
	})
	t.Run("their network", func(t *testing.T) {
		var policies networkingv1.NetworkPolicyList
		if err := server.Client.List(t.Context(), &policies, client.InNamespace("ada")); err != nil || len(policies.Items) != 5 {
			t.Errorf("%d policies, %v", len(policies.Items), err)
		}
	})
	t.Run("how many objects they may have", func(t *testing.T) {
		quota := &corev1.ResourceQuota{}
		at := client.ObjectKey{Namespace: "ada", Name: "muster-objects"}
		if err := server.Client.Get(t.Context(), at, quota); err != nil {
			t.Fatal(err)
		}
		quota.Spec.Hard["count/trainingjobs.muster.dev"] = resource.MustParse("7")
		if err := server.Client.Update(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
		server.Run(t, []rehearsal.Step{{Args: "user add ada --queue vision --lifetime 1h --file " + ada, Says: "may use queue vision"}})
		if err := server.Client.Get(t.Context(), at, quota); err != nil || quota.Spec.Hard.Name("count/trainingjobs.muster.dev", resource.DecimalSI).Value() != 7 {
			t.Errorf("the quota that an administrator changed is %v, %v", quota.Spec.Hard, err)
		}
		server.As(t, ada).Run(t, []rehearsal.Step{{Args: "get", Says: "mnist"}})
	})
	remove(t, server, ada)
}

// TestUsersOfOneMachine: a Muster of one machine adds no user, and makes no object for
// one. It can remove a user that an earlier version added.
func TestUsersOfOneMachine(t *testing.T) {
	machine := rehearsal.Start(t)
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "ada.kubeconfig")
	machine.Run(t, []rehearsal.Step{
		{Args: "user add ada --queue vision --file " + file, Code: 1, Says: "jobs run as the user who started it, also jobs that other people submit; let each person start a Muster of their own"},
		{Args: "user add ada --identity ada@example.com", Code: 1, Says: "which has no users"},
		{Args: "user list", Says: "which has no users"},
	})
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a kubeconfig was written: %v", err)
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ada"}}, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}} {
		if err := machine.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s was made: %v", o, o.GetName(), err)
		}
	}
	if _, err := tenant.Add(ctx, machine.Client, tenant.Tenant{Name: "ada", Queue: "vision"}); err != nil {
		t.Fatal(err)
	}
	machine.Run(t, []rehearsal.Step{
		{Args: "user list", Says: "ada   vision"},
		{Args: "user remove ada --yes", Says: "ada is removed; with queue vision"},
	})
}

// checkFile is about a file that nobody else may read.
func checkFile(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "client-key") {
		t.Errorf("the kubeconfig holds whoever made it: %v", err)
	}
}

// awaitPolicies waits until the server's caches know the policies.
func awaitPolicies(t *testing.T, server *rehearsal.Server, kubeconfig string) {
	t.Helper()
	user := server.As(t, kubeconfig)
	job := func(queue string) *v1alpha1.TrainingJob {
		j := &v1alpha1.TrainingJob{}
		j.Namespace, j.GenerateName, j.Spec.Queue = "ada", "try-", queue
		j.Spec.Roles = []v1alpha1.Role{{Name: "worker", Command: []string{"true"}}}
		return j
	}
	rehearsal.Eventually(t, "policies hold", func(ctx context.Context) bool {
		stamped := job("")
		err := user.Client.Create(ctx, stamped, client.DryRunAll)
		other := user.Client.Create(ctx, job("eve"), client.DryRunAll)
		return err == nil && stamped.Annotations[v1alpha1.AnnotationSubmitter] != "" && other != nil && strings.Contains(other.Error(), "may not use queue eve")
	})
}

func remove(t *testing.T, server *rehearsal.Server, ada string) {
	t.Helper()
	ctx := t.Context()
	job := &v1alpha1.TrainingJob{}
	if err := server.Client.Get(ctx, client.ObjectKey{Namespace: "ada", Name: "mnist"}, job); err != nil {
		t.Fatal(err)
	}
	from := job.DeepCopy()
	job.Status.Phase = v1alpha1.JobRunning // as the manager would say
	if err := server.Client.Status().Patch(ctx, job, client.MergeFrom(from)); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "user list", Says: "ada   vision  1        0"},
		{Args: "user remove bob --yes", Code: 3, Says: "there is no user bob"},
		{Args: "user remove ada --yes", Code: 1, Says: "1 job of ada run"},
		{Args: "user remove ada --force", Code: 2, Says: "give --yes"},
		{Args: "user remove ada --force --yes", Says: "ada is removed; with queue vision"},
		{Args: "user list -o json", Says: `"name": "eve"`},
	})
	if err := server.Client.Get(ctx, client.ObjectKey{Name: "ada"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
	// The server believes a token that it has just checked for a moment more.
	rehearsal.Eventually(t, "the kubeconfig is worth nothing", func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return apierrors.IsUnauthorized(server.As(t, ada).Client.List(ctx, &v1alpha1.TrainingJobList{}, client.InNamespace("ada")))
	})
}
