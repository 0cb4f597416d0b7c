//go:build embedded

package serve_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin/browser"
	"github.com/muster-dev/muster/internal/people/signin/idp"
)

const consoleURL = "https://gpu.example.org/muster"

// TestConsole is a manager, with the rights of its service account alone, whose console is configured by the
// chart: people sign in at a provider, and another manager goes on with their sessions.
func TestConsole(t *testing.T) {
	server, provider := rehearsal.StartCluster(t), idp.Start(t, consoleURL+"/.muster/signin/callback")
	address := addressOfThisMachine(t)
	t.Setenv("POD_IP", address)
	server.Run(t, []rehearsal.Step{{Args: "install --no-wait --set manager.replicas=0,namespace.podSecurity=privileged,console.enabled=true,console.url=" + consoleURL +
		",console.proxies[0]=127.0.0.1,console.oidc.clientID=muster,console.oidc.clientSecret=sso,console.oidc.issuer=" + provider.URL, Says: "is applied"}})
	create(t, server, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ann"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "oidc:ann"}}})
	file, at := consoleFile(t, server)
	args := []string{"--console", file, "--authorities", authoritiesOf(t, provider)}
	ann := browser.New(t, provider, consoleURL, at)

	t.Run("signs people in", func(t *testing.T) {
		serve(t, server, args...)
		awaitConsole(t, at)
		if user, status := ann.Enter(ann.Begin()); user != "oidc:ann" {
			t.Fatalf("she is %q (%d)", user, status)
		}
		if answer, text := ann.Get("/api/gpus"); answer.StatusCode != http.StatusOK || !strings.Contains(text, `"nodes"`) {
			t.Errorf("the GPUs: %s: %s", answer.Status, text)
		}
		provider.Set(func(s *idp.Settings) { s.User = "eve" })
		defer provider.Set(func(s *idp.Settings) { s.User = "ann" })
		eve := browser.New(t, provider, consoleURL, at)
		if user, status := eve.Enter(eve.Begin()); user != "oidc:eve" {
			t.Fatalf("she is %q (%d)", user, status)
		}
		if answer, text := eve.Get("/api/gpus"); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, `User "oidc:eve" cannot list`) {
			t.Errorf("the GPUs for somebody without rights: %s: %s", answer.Status, text)
		}
		slice := &discoveryv1.EndpointSlice{}
		if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "muster-console"}, slice); err != nil {
			t.Fatal(err)
		}
		if _, port, _ := net.SplitHostPort(at); slice.Endpoints[0].Addresses[0] != address || strconv.Itoa(int(*slice.Ports[0].Port)) != port || len(slice.OwnerReferences) != 1 {
			t.Errorf("the Service leads to %v, port %s", slice.Endpoints, port)
		}
	})
	t.Run("goes on in another process", func(t *testing.T) {
		serve(t, server, args...)
		awaitConsole(t, at)
		if answer, text := ann.Get("/api/gpus"); answer.StatusCode != http.StatusOK || provider.Renewed() != 1 {
			t.Errorf("the GPUs, after %d renewals: %s: %s", provider.Renewed(), answer.Status, text)
		}
		stored := &corev1.Secret{}
		if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "muster-console-sessions"}, stored); err != nil {
			t.Fatal(err)
		}
		if text := string(stored.Data["table"]); session.Reveals(text) || strings.Contains(text, "eyJ") || !strings.Contains(text, "sealed") {
			t.Errorf("the Secret has %s", text)
		}
		if err := server.Client.Delete(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		// Without the Secret nobody is signed in, once the console notices with the next sign-in.
		rehearsal.Eventually(t, "people sign in again", func(context.Context) bool {
			again := browser.New(t, provider, consoleURL, at)
			awaitConsole(t, at)
			user, _ := again.Enter(again.Begin())
			return user == "oidc:ann"
		})
		if answer, _ := ann.Get("/api/me"); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("her former session: %s", answer.Status)
		}
	})
}

func create(t *testing.T, server *rehearsal.Server, object client.Object) {
	t.Helper()
	if err := server.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// consoleFile is what the chart has written, with files and a port of this test. It returns the address at
// which the console will listen.
func consoleFile(t *testing.T, server *rehearsal.Server) (file, at string) {
	t.Helper()
	rendered := &corev1.ConfigMap{}
	if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "muster-console"}, rendered); err != nil {
		t.Fatal(err)
	}
	var c configuration.Console
	if err := yaml.UnmarshalStrict([]byte(rendered.Data["console.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	at = freeAddress(t)
	_, port, _ := net.SplitHostPort(at)
	c.Port, _ = strconv.Atoi(port)
	c.OIDC.ClientSecretFile = filepath.Join(t.TempDir(), "clientSecret")
	write(t, c.OIDC.ClientSecretFile, idp.Secret)
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "console.yaml")
	write(t, file, string(text))
	return file, at
}

func authoritiesOf(t *testing.T, provider *idp.Provider) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "ca.crt"), provider.Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// awaitConsole waits until something listens there.
func awaitConsole(t *testing.T, at string) {
	t.Helper()
	rehearsal.Eventually(t, "the console listens", func(ctx context.Context) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		return err == nil && conn.Close() == nil
	})
}
