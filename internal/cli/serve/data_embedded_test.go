//go:build embedded

package serve_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

// TestDataByTheDoor is a cluster on which tenants keep data in versions, through the
// API server's proxy, with a manager that has the rights of its service account alone.
func TestDataByTheDoor(t *testing.T) {
	server := rehearsal.StartCluster(t)
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("MUSTER_HOME", home)
	t.Chdir(dir)
	write(t, filepath.Join(dir, "images", "a.png"), "a")
	write(t, filepath.Join(dir, "images", "train", "b.png"), "b")
	write(t, filepath.Join(dir, "images", "long"), strings.Repeat("a line of a file of several chunks\n", 100_000))
	write(t, filepath.Join(dir, "more", "a.png"), "A")
	ada, mallory := filepath.Join(home, "ada.kubeconfig"), filepath.Join(home, "mallory.kubeconfig")
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set manager.replicas=0,namespace.podSecurity=privileged", Says: "is applied"},
		{Args: "user add ada --lifetime 1h --file " + ada, Says: "ada"},
		{Args: "user add mallory --queue shared --lifetime 1h --file " + mallory, Says: "mallory"},
	})
	asAda, asMallory := server.As(t, ada), server.As(t, mallory)
	asAda.Run(t, []rehearsal.Step{
		{Args: "data create digits", Says: "dataset digits created"}, // an object, for which nobody is needed
		{Args: "data put images digits", Code: 1, Says: "Muster's manager does not answer"},
	})
	store := t.TempDir()
	serve(t, server, "--door", standIn(t, server.Client), "--store-folder", store, "--default-image", "busybox")
	awaitDoor(t, asAda)
	t.Run("verbs", func(t *testing.T) { asAda.Run(t, byTheDoor) })
	t.Run("what was got", func(t *testing.T) {
		for path, want := range map[string]string{"got/a.png": "A", "got/train/b.png": "b", "first/a.png": "a"} {
			if text, err := os.ReadFile(path); err != nil || string(text) != want {
				t.Errorf("%s: %q, want %q (%v)", path, text, want, err)
			}
		}
	})
	t.Run("others", func(t *testing.T) {
		asMallory.Run(t, []rehearsal.Step{
			{Args: "data ls", Says: "There are no datasets in namespace mallory"},
			{Args: "data ls digits", Code: 3, Says: "there is no dataset digits in namespace mallory"},
			{Args: "data ls digits -n ada", Code: 1, Says: "may not"},
			{Args: "data create digits", Says: "created"},
			{Args: "data put more digits", Says: "1 added"},
			{Args: "data cat digits:/a.png", Says: "A"},
		})
		for _, path := range []string{"ada", "mallory"} {
			if found, err := filepath.Glob(filepath.Join(store, "data", path, "packs", "*", "*")); err != nil || len(found) == 0 {
				t.Errorf("%s has no store of their own: %v", path, err)
			}
		}
		readsOthers(t, server, asMallory)
	})
	t.Run("agents", func(t *testing.T) { agentsRead(t, server, store) })
	t.Run("what a collection has to know", func(t *testing.T) {
		manager := server.As(t, asManager(t, server))
		heads, err := dataset.Everything{Client: manager.Client, Namespace: "ada"}.List(t.Context())
		if err != nil || heads[ref.Name{Kind: ref.Tag, Name: "ada/digits/v1"}].IsZero() || len(heads) != 2 {
			t.Errorf("%v %v", heads, err)
		}
		if err := manager.Client.Get(t.Context(), client.ObjectKey{Name: "gone"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			t.Errorf("a namespace that is gone: %v", err)
		}
	})
	t.Run("what is told", func(t *testing.T) {
		namespace := &corev1.Namespace{}
		err := server.Client.Get(t.Context(), client.ObjectKey{Name: v1alpha1.SystemNamespace}, namespace)
		if said := namespace.Annotations[v1alpha1.AnnotationDataStore]; err != nil || said != "folder "+filepath.Join(store, "data") {
			t.Errorf("%q %v", said, err)
		}
	})
}

// byTheDoor is what a tenant does with data on a cluster.
var byTheDoor = []rehearsal.Step{
	{Args: "data put images digits -m first", Says: "3 added"},
	{Args: "data put images digits -m again", Says: "nothing has changed"},
	{Args: "data ls -r digits", Says: "train/b.png"},
	{Args: "data cat digits:/train/b.png", Says: "b"},
	{Args: "data tag digits v1", Says: "tag v1 is at"},
	{Args: "data put more digits -m second", Says: "0 added, 1 changed"},
	{Args: "data diff digits@v1 digits", Says: "~ a.png\n0 added, 1 changed, 0 removed"},
	{Args: "data log digits", Says: "second"},
	{Args: "data branch digits@v1 next", Says: "branch next is at"},
	{Args: "data put more/a.png digits@next:/x", Says: "1 added"},
	{Args: "data merge digits@next", Says: "next merged into main"},
	{Args: "data rm digits:/x", Says: "1 file removed"},
	{Args: "data branch digits next --delete", Says: "branch next deleted"},
	{Args: "data get digits got", Says: "got: 3 files"},
	{Args: "data get digits got", Says: "3 of them were there already"},
	{Args: "data get digits@v1 first", Says: "first: 3 files"},
	{Args: "data verify digits", Says: "nothing is damaged"},
	{Args: "data du digits", Says: "the store takes"},
	{Args: "data gc", Code: 1, Says: "its manager collects what nothing needs"},
	{Args: "data gc --dry-run", Code: 1, Says: "its manager collects what nothing needs"},
	{Args: "data key create", Code: 3, Says: "no S3 gateway"},
	{Args: "data put more digits -n mallory", Code: 1, Says: "may not"},
}

// readsOthers has somebody ask for another namespace's objects with a token of theirs.
func readsOthers(t *testing.T, server, mallory *rehearsal.Server) {
	t.Helper()
	token := tokenFor(t, server, "mallory", v1alpha1.DoorAccount, nil)
	for path, want := range map[string]int{
		"/v1/namespaces/ada/data?prefix=packs/":     http.StatusForbidden,
		"/v1/namespaces/mallory/data?prefix=packs/": http.StatusOK,
	} {
		if got := asks(t, mallory, path, token); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// agentsRead: the agent of a node reads data of a namespace of which a pod on the node
// names data, and of no other.
func agentsRead(t *testing.T, server *rehearsal.Server, store string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(store, "data", "ada", "packs", "*", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no packs: %v", err)
	}
	key, err := filepath.Rel(filepath.Join(store, "data", "ada"), found[0])
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.NodeAccount}}
	if err := server.Client.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	agent := pod(v1alpha1.SystemNamespace, "agent")
	agent.Spec.ServiceAccountName = v1alpha1.NodeAccount
	if err := server.Client.Create(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	token := tokenFor(t, server, v1alpha1.SystemNamespace, v1alpha1.NodeAccount, agent)
	path := "/v1/namespaces/ada/data/" + key
	if got := asks(t, server, path, token); got != http.StatusForbidden {
		t.Errorf("an agent without such a pod: %d", got)
	}
	reader, yes := pod("ada", "reader"), true
	reader.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, ReadOnly: &yes}}}}
	if err := server.Client.Create(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	rehearsal.Eventually(t, "the manager sees the pod", func(context.Context) bool { return asks(t, server, path, token) == http.StatusOK })
	for other, want := range map[string]int{
		"/v1/namespaces/mallory/data/" + key:    http.StatusForbidden,
		"/v1/namespaces/ada/data?prefix=packs/": http.StatusForbidden,
	} {
		if got := asks(t, server, other, token); got != want {
			t.Errorf("%s: %d, want %d", other, got, want)
		}
	}
}

// pod is one on the node elsewhere.
func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: "elsewhere", Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
	}
}

// tokenFor is a token for the door, bound to a pod if there is one.
func tokenFor(t *testing.T, server *rehearsal.Server, namespace, name string, bound *corev1.Pod) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{v1alpha1.DoorAudience}}}
	if bound != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: bound.Name, UID: bound.UID}
	}
	if err := server.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// asks asks at the door, through the API server, and returns the status.
func asks(t *testing.T, s *rehearsal.Server, path, token string) int {
	t.Helper()
	connections, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	url := s.Config.Host + "/api/v1/namespaces/" + v1alpha1.SystemNamespace + "/services/" + v1alpha1.DoorService + "/proxy" + path
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(v1alpha1.DoorHeader, token)
	response, err := connections.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}
