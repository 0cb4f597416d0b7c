//go:build embedded

package website_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin/browser"
	"github.com/muster-dev/muster/internal/people/signin/idp"
)

// stage is a real API server with Muster installed, and a provider.
type stage struct {
	*rehearsal.Server
	idp *idp.Provider
	// manager is the connection of the manager's service account.
	manager *rest.Config
}

const installConsole = "install --no-wait --reset-values --set manager.replicas=0,namespace.podSecurity=privileged,defaultQueue.subjects[0].kind=User,defaultQueue.subjects[0].name=oidc:ann,defaultQueue.subjects[0].apiGroup=rbac.authorization.k8s.io," +
	"console.enabled=true,console.oidc.clientID=muster,console.oidc.impersonation.enabled=true,console.oidc.impersonation.groups[0]=oidc:vision,console.oidc.issuer="

// newStage installs Muster with the console. The user oidc:ann may do what muster-user may in the namespace
// vision, by her group, and the API server tells who asks when a job named who is made.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Server: rehearsal.StartCluster(t), idp: idp.Start(t, callback)}
	s.idp.Set(func(i *idp.Settings) { i.Groups = []string{"vision", "other"} })
	s.Run(t, []rehearsal.Step{{Args: installConsole + s.idp.URL, Says: "is applied"}})
	for _, name := range []string{"vision", "speech"} {
		must(t, s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	must(t, s.Client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "people"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster-user"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "oidc:vision"}}}))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "muster-manager"}}
	token := &authenticationv1.TokenRequest{}
	must(t, s.Client.SubResource("token").Create(t.Context(), account, token))
	s.manager = rest.AnonymousClientConfig(s.Config)
	s.manager.BearerToken = token.Status.Token
	return s
}

// trust makes the API server trust the provider.
func (s *stage) trust(t *testing.T) {
	t.Helper()
	type object = map[string]any
	file := filepath.Join(filepath.Dir(s.Kubeconfig), "pki", "authentication.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	config := object{}
	must(t, yaml.Unmarshal(text, &config)) // it keeps what it says of anonymous requests
	config["jwt"] = []object{{
		"issuer":        object{"url": s.idp.URL, "audiences": []string{idp.ClientID}, "certificateAuthority": string(s.idp.Authority())},
		"claimMappings": object{"username": object{"claim": "sub", "prefix": "oidc:"}, "groups": object{"claim": "groups", "prefix": "oidc:"}},
	}}
	text, err = yaml.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(file+".new", text, 0o600))
	must(t, os.Rename(file+".new", file))
	ann := rest.AnonymousClientConfig(s.Config)
	ann.BearerToken = s.idp.Sign("")
	api, err := client.New(ann, client.Options{Scheme: s.Client.Scheme(), Mapper: s.Client.RESTMapper()})
	must(t, err)
	rehearsal.Eventually(t, "the API server trusts the provider", func(ctx context.Context) bool {
		review := &authenticationv1.SelfSubjectReview{}
		return api.Create(ctx, review) == nil && review.Status.UserInfo.Username == "oidc:ann"
	})
}

// asking is a console whose gate has a route that passes requests on by the way of the caller.
type asking struct {
	*browser.Browser
	console *website.Cluster
	gate    *gate.Gate
}

// sign signs ann in at a console with the manager's rights.
func (s *stage) sign(t *testing.T, change func(*configuration.Console)) *asking {
	t.Helper()
	p := &pages{idp: s.idp}
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte(idp.Secret), 0o600))
	config := configured(s.idp, func(c *configuration.Console) {
		c.OIDC.ClientSecretFile = secret
		if change != nil {
			change(c)
		}
	})
	p.start(t, website.ClusterOptions{Config: config, REST: s.manager, Store: session.File{Path: filepath.Join(t.TempDir(), "s.json")}})
	a := &asking{Browser: p.browser(t), console: p.Cluster, gate: gate.New(gate.Options{Table: p.Table()})}
	if user := enter(t, a.Browser, a.Begin()); user != "oidc:ann" {
		t.Fatalf("the page names %s", user)
	}
	must(t, a.gate.Add(t.Context(), gate.Site{Origin: "https://gpu.example.org", Routes: []gate.Route{{Pattern: "/", Methods: []string{"GET", "POST", "DELETE"},
		Types: []string{"application/json"}, Handler: http.HandlerFunc(a.pass)}}}))
	return a
}

// pass passes a request on to the API server, as pages will.
func (a *asking) pass(w http.ResponseWriter, r *http.Request) {
	grant, _ := gate.Of(r.Context())
	way, err := a.console.Passage().Of(r.Context(), grant.Caller)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	to := *way.Server
	to.Path, to.RawQuery = r.URL.Path, r.URL.RawQuery
	out, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), r.Body)
	if err == nil {
		out.Header.Set("Content-Type", "application/json")
		var answer *http.Response
		if answer, err = way.Transport.RoundTrip(out); err == nil {
			w.Header().Set("X-Read-Only", way.ReadOnly)
			w.WriteHeader(answer.StatusCode)
			_, _ = io.Copy(w, answer.Body)
			_ = answer.Body.Close()
			return
		}
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}

// ask sends a request of ann's browser through the gate, and returns status, answer, and why she only reads.
func (a *asking) ask(t *testing.T, method, path, body string) (status int, text, readOnly string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host, r.TLS = "gpu.example.org", &tls.ConnectionState{}
	for name, value := range a.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	r.Header.Set("X-Muster-Key", a.Key)
	r.Header.Set("Origin", "https://gpu.example.org")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	a.gate.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header().Get("X-Read-Only")
}

func job(namespace, name string) string {
	text, err := json.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "TrainingJob", "metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{"roles": []any{map[string]any{"name": "worker", "replicas": 1, "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "python:3.13"}}}}}}}})
	if err != nil {
		panic(err) // it is JSON
	}
	return string(text)
}

func jobs(namespace string) string {
	return "/apis/muster.dev/v1alpha1/namespaces/" + namespace + "/trainingjobs"
}

// reads tries what ann may and may not read.
func (a *asking) reads(t *testing.T) {
	t.Helper()
	if status, text, _ := a.ask(t, "GET", jobs("vision"), ""); status != http.StatusOK {
		t.Errorf("the jobs of her namespace: %d: %s", status, text)
	}
	for _, path := range []string{jobs("speech"), "/apis/muster.dev/v1alpha1/trainingjobs", "/api/v1/pods", "/api/v1/namespaces/muster-system/secrets", "/api/v1/namespaces/muster-system/secrets/muster-console-sessions"} {
		if status, text, _ := a.ask(t, "GET", path, ""); status != http.StatusForbidden {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
}

// writes makes a job, and reads by whom the API server says that it was made.
func (a *asking) writes(t *testing.T, s *stage, name string) {
	t.Helper()
	if status, text, why := a.ask(t, "POST", jobs("vision"), job("vision", name)); status != http.StatusCreated || why != "" {
		t.Fatalf("a job in her namespace: %d, read-only %q: %s", status, why, text)
	}
	made := &v1alpha1.TrainingJob{}
	must(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: name}, made))
	if by, sure := made.Annotations["muster.dev/submitter"], made.Annotations["muster.dev/submitter-authenticated"]; by != "oidc:ann" || sure != "true" {
		t.Errorf("the API server says that the job is of %q (%s)", by, sure)
	}
	status, text, _ := a.ask(t, "POST", jobs("speech"), job("speech", name))
	if status != http.StatusForbidden || !strings.Contains(text, `User \"oidc:ann\" cannot create`) {
		t.Errorf("a job in another namespace: %d: %s", status, text)
	}
	if status, text, _ := a.ask(t, "DELETE", jobs("vision")+"/"+name, ""); status != http.StatusOK {
		t.Errorf("deleting her job: %d: %s", status, text)
	}
}

// TestClusterWays: a real API server is asked as ann, by her token, by constrained impersonation, or by
// reviewed reads, and never writes for her in the manager's name.
func TestClusterWays(t *testing.T) {
	s := newStage(t)
	impersonate := func(c *configuration.Console) {
		c.OIDC.Impersonate, c.OIDC.ImpersonateGroups = true, []string{"oidc:vision"}
	}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name}}
	}
	must(t, s.Client.Create(t.Context(), secret("own")))

	t.Run("reviewed reads", func(t *testing.T) {
		a := s.sign(t, nil)
		a.reads(t)
		for _, c := range [][2]string{{"POST", jobs("vision")}, {"GET", "/api/v1/namespaces/vision/secrets"}, {"DELETE", jobs("vision")}} {
			body := ""
			if c[0] == "POST" {
				body = job("vision", "none")
			}
			status, text, why := a.ask(t, c[0], c[1], body)
			if status != http.StatusForbidden || !strings.Contains(why, "does not trust tokens of "+s.idp.URL) || !strings.Contains(why, "type the command") {
				t.Errorf("%s %s: %d, read-only %q: %s", c[0], c[1], status, why, text)
			}
		}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "none"}, &v1alpha1.TrainingJob{}); !apierrors.IsNotFound(err) {
			t.Errorf("the job is there: %v", err)
		}
		if _, text := a.Get("/api/me"); !strings.Contains(text, `"readOnly":"you can only read here`) || strings.Contains(text, "trouble") {
			t.Errorf("the page says %s", text)
		}
	})
	t.Run("constrained impersonation", func(t *testing.T) {
		a := s.sign(t, impersonate)
		a.reads(t)
		a.writes(t, s, "acted")
		// She may read secrets of her namespace, and the manager may not as her.
		if status, text, _ := a.ask(t, "GET", "/api/v1/namespaces/vision/secrets/own", ""); status != http.StatusForbidden || !strings.Contains(text, "muster-manager") {
			t.Errorf("a secret: %d: %s", status, text)
		}
		if _, text := a.Get("/api/me"); !strings.Contains(text, `"api":{"user":"oidc:ann"`) {
			t.Errorf("the page says %s", text)
		}
	})
	t.Run("impersonation without constraint is not used", func(t *testing.T) {
		free := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "free"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users", "groups"}}}}
		must(t, s.Client.Create(t.Context(), free))
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "free"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "free"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: v1alpha1.SystemNamespace, Name: "muster-manager"}}}
		must(t, s.Client.Create(t.Context(), binding))
		var why string
		rehearsal.Eventually(t, "the manager may impersonate without a constraint", func(context.Context) bool {
			_, _, why = s.sign(t, impersonate).ask(t, "GET", jobs("vision"), "")
			return why != ""
		})
		if !strings.Contains(why, "without any constraint") {
			t.Errorf("read-only: %q", why)
		}
		must(t, s.Client.Delete(t.Context(), binding))
	})
	t.Run("her token", func(t *testing.T) {
		before := s.sign(t, nil)
		s.trust(t)
		a := s.sign(t, nil)
		a.reads(t)
		a.writes(t, s, "own")
		if status, text, _ := a.ask(t, "GET", "/api/v1/namespaces/vision/secrets/own", ""); status != http.StatusOK {
			t.Errorf("a secret of her namespace: %d: %s", status, text)
		}
		if status, text, _ := before.ask(t, "GET", jobs("vision"), ""); status != http.StatusOK {
			t.Errorf("her earlier session: %d: %s", status, text)
		}
	})
}
