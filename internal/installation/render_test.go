package installation

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/charts"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

// stamping is the kind that servers have from 1.36 on.
const stamping = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

func render(t *testing.T, r Rendering) []*unstructured.Unstructured {
	t.Helper()
	if r.Version == "" {
		r.Version = "v1.2.3"
	}
	objects, err := Render(r)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func find(objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

// The CRDs are those of the folder, but for what marks them as Muster's.
func TestKindsAreTheGeneratedOnes(t *testing.T) {
	objects := render(t, Rendering{})
	files, err := fs.Glob(charts.CRD, "muster/crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := fs.ReadFile(charts.CRD, file)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{}
		if err := yaml.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		got := find(objects, kindCRD, (&unstructured.Unstructured{Object: want}).GetName())
		if got == nil {
			t.Fatalf("%s is not rendered", file)
		}
		if keep := got.GetAnnotations()["helm.sh/resource-policy"]; keep != "keep" {
			t.Errorf("%s: Helm would remove it", got.GetName())
		}
		if diff := cmp.Diff(normal(t, want["spec"]), normal(t, got.Object["spec"])); diff != "" {
			t.Errorf("%s (-generated +rendered):\n%s", file, diff)
		}
	}
}

// normal is a value as YAML reads it back, so that kinds of numbers do not
// matter.
func normal(t *testing.T, v any) any {
	t.Helper()
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRenderedInOrder(t *testing.T) {
	var kinds []string
	for _, o := range render(t, Rendering{Kinds: []string{stamping}}) {
		if len(kinds) == 0 || kinds[len(kinds)-1] != o.GetKind() {
			kinds = append(kinds, o.GetKind())
		}
	}
	want := []string{
		"Namespace", kindCRD, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"Queue", "NetworkPolicy", "Service", "PodDisruptionBudget", kindDeployment,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEverythingIsMarked(t *testing.T) {
	for _, o := range render(t, Rendering{Version: "v1.2.3+dirty", Kinds: []string{stamping}}) {
		if owner := ownerOf(o); owner != Ours {
			t.Errorf("%s is of %q", Title(o), owner)
		}
		if v := o.GetLabels()[labelVersion]; v != "v1.2.3_dirty" {
			t.Errorf("%s is of version %q", Title(o), v)
		}
	}
}

// No right is given by a star, and none that escapes the others.
func TestRightsAreSpelledOut(t *testing.T) {
	all := Rendering{Values: kept(map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{"enabled": true}})}
	pages := Rendering{Values: shown(map[string]any{"url": "https://gpu.test", "proxies": []any{"10.0.0.0/8"}}, map[string]any{"impersonation": map[string]any{"enabled": true, "groups": []any{"oidc:vision"}}})}
	for _, o := range append(render(t, all), render(t, pages)...) {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil || len(rules) == 0 {
			t.Fatal(Title(o), err)
		}
		for _, r := range rules {
			rule := r.(map[string]any)
			for _, part := range []string{"apiGroups", "resources", "verbs"} {
				words, _, _ := unstructured.NestedStringSlice(rule, part)
				for _, word := range words {
					if strings.Contains(word, "*") || slices.Contains([]string{"escalate", "bind", "impersonate"}, word) {
						t.Errorf("%s: %s %q", Title(o), part, word)
					}
				}
			}
		}
	}
}

// byName are the resources on which service accounts have rights by name: all but create,
// which a policy limits.
var byName = []string{"secrets", "configmaps", "leases", "endpointslices"}

// TestRightsByName holds for all that the chart gives to service accounts.
func TestRightsByName(t *testing.T) {
	var shards []string
	for i := range registry.Shards {
		shards = append(shards, registry.ShardName(i))
	}
	for name, gateway := range map[string]map[string]any{
		"an authority":  {"enabled": true},
		"a certificate": {"enabled": true, "certificateSecret": "s3-tls", "endpoint": "https://s3.test"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, Rendering{Values: map[string]any{
				"agent": map[string]any{"create": true}, "pipelines": map[string]any{"secretNamespaces": []any{"vision"}},
				"data": map[string]any{"persistentVolumeClaim": "c", "gateway": gateway},
			}})
			certificate := "muster-gateway-authority"
			if given, is := gateway["certificateSecret"].(string); is {
				certificate = given
			}
			secrets := map[string][]string{}
			for _, o := range accountRoles(t, objects) {
				for _, r := range rulesOf(t, o) {
					checkByName(t, o, r)
					if slices.Contains(r.Resources, "secrets") && o.GetName() == "muster-manager" {
						secrets[strings.Join(r.Verbs, ",")] = r.ResourceNames
					}
				}
			}
			if diff := cmp.Diff(map[string][]string{"get,update": shards, "get": {certificate}, "create": nil}, secrets); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
		})
	}
	for _, o := range accountRoles(t, render(t, Rendering{Values: shown(map[string]any{"url": "https://gpu.test", "proxies": []any{"10.0.0.0/8"}}, nil)})) {
		for _, r := range rulesOf(t, o) {
			checkByName(t, o, r)
			if slices.Contains(r.Resources, "secrets") && len(r.ResourceNames) > 0 && !slices.Equal(r.ResourceNames, []string{"muster-console-sessions"}) {
				t.Errorf("%s has rights on the secrets %v for the console", Title(o), r.ResourceNames)
			}
		}
	}
	for _, o := range accountRoles(t, render(t, Rendering{})) {
		for _, r := range rulesOf(t, o) {
			if slices.Contains(r.Resources, "secrets") && o.GetName() != "muster-pipelines-secrets" {
				t.Errorf("%s has rights on secrets without a gateway", Title(o))
			}
		}
	}
}

// checkByName tries one rule.
func checkByName(t *testing.T, o *unstructured.Unstructured, r rbacv1.PolicyRule) {
	t.Helper()
	if o.GetName() == "muster-pipelines-secrets" && slices.Equal(r.Verbs, []string{"get"}) {
		return // a namespace gives it, and its Secrets have the names of users
	}
	for _, resource := range byName {
		if slices.Contains(r.Resources, resource) && len(r.ResourceNames) == 0 && !slices.Equal(r.Verbs, []string{"create"}) {
			t.Errorf("%s gives %v of all %s", Title(o), r.Verbs, resource)
		}
	}
}

// accountRoles are the roles that service accounts of Muster are bound to.
func accountRoles(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, o := range objects {
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		isAccount := func(s any) bool { return s.(map[string]any)["kind"] == "ServiceAccount" }
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") || !slices.ContainsFunc(subjects, isAccount) {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		role := find(objects, kind, name)
		if role == nil {
			t.Fatalf("%s binds %s %s, which is not there", Title(o), kind, name)
		}
		out = append(out, role)
	}
	if len(out) < 3 {
		t.Fatalf("%d roles of service accounts", len(out))
	}
	return out
}

func rulesOf(t *testing.T, o *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		kinds  []string
		want   string // part of the error; empty: none
		absent string // kind/name
		there  string
	}{
		"a server without stamps": {absent: "MutatingAdmissionPolicy/muster-submitter", there: "ValidatingAdmissionPolicy/muster-submitter"},
		"a server with stamps":    {kinds: []string{stamping}, there: "MutatingAdmissionPolicy/muster-submitter"},
		"no policies":             {values: set("policies", "create", false), absent: "ValidatingAdmissionPolicy/muster-queues", there: "Deployment/muster-manager"},
		"somebody else's kinds":   {values: set("crds", "install", false), absent: "CustomResourceDefinition/gangs.muster.dev"},
		"an unknown value":        {values: map[string]any{"replica": 2}, want: "replica"},
		"a value of another type": {values: set("manager", "replicas", "two"), want: "replicas"},
		"a name that is no name":  {values: set("policies", "exemptUsers", []any{"a' || true || 'b"}), want: "exemptUsers"},
		"no agent":                {absent: "DaemonSet/muster-node"},
		"an agent":                {values: set("agent", "create", true), there: "DaemonSet/muster-node"},
		"an agent that mistypes":  {values: set("agent", "simulateGPUs", "8xA100; rm"), want: "simulateGPUs"},
		"an agent's rights":       {values: set("agent", "create", true), there: "ValidatingAdmissionPolicy/muster-agents"},
		"code in two places":      {values: stored(map[string]any{"persistentVolumeClaim": "c", "s3": map[string]any{"endpoint": "https://s3", "bucket": "b"}}, true), want: "code is kept in one place"},
		"half a bucket":           {values: stored(map[string]any{"s3": map[string]any{"bucket": "b"}}, true), want: "wants both an endpoint and a bucket"},
		"a claim and no agent":    {values: stored(map[string]any{"persistentVolumeClaim": "c"}, false), want: "Set agent.create=true beside store"},
		"a bucket and no agent":   {values: stored(map[string]any{"s3": map[string]any{"endpoint": "https://s3", "bucket": "b"}}, false), want: "Set agent.create=true beside store"},
		"a password of an index":  {values: map[string]any{"environments": map[string]any{"index": "https://ada:pw@packages.example.com/simple"}}, want: "users name a Secret with it in environment.indexSecret"},
		"data in two places":      {values: kept(map[string]any{"persistentVolumeClaim": "c", "s3": map[string]any{"endpoint": "https://s3", "bucket": "b"}}), want: "data is kept in one place"},
		"half a bucket for data":  {values: kept(map[string]any{"s3": map[string]any{"endpoint": "https://s3"}}), want: "data.s3 wants both an endpoint and a bucket"},
		"data below nothing":      {values: kept(map[string]any{"prefix": "../x"}), want: "prefix"},
		"data amid code": {values: map[string]any{
			"data": map[string]any{"prefix": "code/x"}, "agent": map[string]any{"create": true}, "store": map[string]any{"persistentVolumeClaim": "c"},
		}, want: "a prefix of its own"},
		"data without an agent":    {values: kept(map[string]any{"s3": map[string]any{"endpoint": "https://s3", "bucket": "b"}}), there: "Deployment/muster-manager"},
		"a claim and an agent":     {values: stored(map[string]any{"persistentVolumeClaim": "c"}, true), there: "CSIDriver/code.muster.dev"},
		"data where code is":       {values: stored(map[string]any{"persistentVolumeClaim": "c"}, true), there: "CSIDriver/data.muster.dev"},
		"data alone":               {values: map[string]any{"agent": map[string]any{"create": true}, "data": map[string]any{"persistentVolumeClaim": "c"}}, there: "CSIDriver/data.muster.dev", absent: "CSIDriver/code.muster.dev"},
		"data that is not wanted":  {values: map[string]any{"agent": map[string]any{"create": true}, "store": map[string]any{"persistentVolumeClaim": "c"}, "data": map[string]any{"enabled": false}}, there: "CSIDriver/code.muster.dev", absent: "CSIDriver/data.muster.dev"},
		"data and nobody there":    {values: map[string]any{"data": map[string]any{"persistentVolumeClaim": "c"}}, absent: "CSIDriver/data.muster.dev"},
		"no gateway":               {values: kept(map[string]any{"persistentVolumeClaim": "c"}), absent: "Service/muster-gateway"},
		"a gateway":                {values: kept(map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{"enabled": true}}), there: "Service/muster-gateway"},
		"a gateway to nothing":     {values: kept(map[string]any{"gateway": map[string]any{"enabled": true}}), want: "there is no data to serve"},
		"a gateway anyone fools":   {values: map[string]any{"policies": map[string]any{"create": false}, "data": map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{"enabled": true}}}, want: "in another's name"},
		"a gateway that is warned": {values: map[string]any{"policies": map[string]any{"validationActions": []any{"Warn"}}, "data": map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{"enabled": true}}}, want: "in another's name"},
		"a gateway in the clear":   {values: kept(map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{"enabled": true, "endpoint": "http://s3.test"}}), want: "endpoint"},
		"a gateway at the door":    {values: fronted("port", 8443), want: "manager.doorPort"},
		"a gateway at the health":  {values: fronted("port", 8081), want: "manager.healthPort"},
		"a gateway at the metrics": {values: fronted("port", 8080), want: "manager.metricsPort"},
		"keys for half a minute":   {values: fronted("keyLife", "30s"), want: "keyLife"},
		"keys for no time":         {values: fronted("keyLife", "0h00m59s"), want: "keyLife"},
		"keys for a minute":        {values: fronted("keyLife", "1m"), there: "Service/muster-gateway"},
		"keys for 90 seconds":      {values: fronted("keyLife", "90s"), there: "Service/muster-gateway"},
		"keys for an hour and so":  {values: fronted("keyLife", "1h0m10s"), there: "Service/muster-gateway"},
		"no console":               {absent: "ConfigMap/muster-console"},
		"a console at loopback":    {values: shown(nil, nil), there: "Role/muster-console", absent: "Service/muster-console"},
		"a console behind a proxy": {values: shown(map[string]any{"url": "https://gpu.test/muster", "proxies": []any{"10.0.0.0/8"}}, nil), there: "Service/muster-console", absent: "ClusterRole/muster-console-impersonation"},
		"a console that acts":      {values: shown(nil, map[string]any{"impersonation": map[string]any{"enabled": true}}), there: "ClusterRole/muster-console-impersonation"},
		"a console of nobody":      {values: set("console", "enabled", true), want: "set console.oidc.issuer"},
		"a console in the clear":   {values: shown(map[string]any{"url": "http://gpu.test"}, nil), want: "url"},
		"a console with a slash":   {values: shown(map[string]any{"url": "https://gpu.test/", "proxies": []any{"10.0.0.1"}}, nil), want: "url"},
		"a console without TLS":    {values: shown(map[string]any{"url": "https://gpu.test"}, nil), want: "browsers need TLS there"},
		"a console without a URL":  {values: shown(map[string]any{"proxies": []any{"10.0.0.1"}}, nil), want: "set console.url"},
		"a console that is open":   {values: shown(map[string]any{"address": "0.0.0.0"}, nil), want: "listens at loopback only"},
		"a console at the door":    {values: shown(map[string]any{"port": 8443}, nil), want: "manager.doorPort"},
		"a console unguarded":      {values: merged(shown(nil, nil), set("policies", "create", false)), want: "any Secret of its namespace"},
		"a console of the system":  {values: shown(nil, map[string]any{"usernamePrefix": "system:"}), want: "usernamePrefix"},
		"a console as the masters": {values: shown(nil, map[string]any{"impersonation": map[string]any{"enabled": true, "groups": []any{"system:masters"}}}), want: "groups"},
		"a console that forgets":   {values: shown(nil, map[string]any{"impersonation": map[string]any{"groups": []any{"oidc:a"}}}), want: "impersonation.enabled=true"},
		"a cache of any size":      {values: map[string]any{"agent": map[string]any{"dataCache": "much"}}, want: "dataCache"},
		"the namespace's standard": {values: set("namespace", "podSecurity", "baseline"), there: "Namespace/muster-system"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(Rendering{Version: "v1", Values: c.values, Kinds: c.kinds})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			has := func(what string) bool {
				kind, name, _ := strings.Cut(what, "/")
				return find(objects, kind, name) != nil
			}
			if c.absent != "" && has(c.absent) || c.there != "" && !has(c.there) {
				t.Errorf("absent %s: %v; there %s: %v", c.absent, !has(c.absent), c.there, has(c.there))
			}
		})
	}
}

// shown are values of a console that is on.
func shown(console, oidc map[string]any) map[string]any {
	all := map[string]any{"enabled": true, "oidc": merged(map[string]any{"issuer": "https://sso.test", "clientID": "muster"}, oidc)}
	return map[string]any{"console": merged(all, console)}
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// TestConsole: the manager reads what the chart writes, and gets the files that it names.
func TestConsole(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   configuration.Console
		files  []string
	}{
		"loopback": {values: shown(nil, nil), want: configuration.Console{Port: 6490}},
		"proxy": {values: shown(map[string]any{"url": "https://gpu.test/muster", "proxies": []any{"10.0.0.0/8"}}, map[string]any{"clientSecret": "sso", "scopes": []any{"offline_access"}}),
			want:  configuration.Console{Port: 6490, Address: "0.0.0.0", URL: "https://gpu.test/muster", Proxies: []string{"10.0.0.0/8"}, OIDC: &configuration.OIDC{ClientSecretFile: "/etc/muster/console-client/clientSecret", Scopes: []string{"offline_access"}}},
			files: []string{"/etc/muster/console-client"}},
		"TLS": {values: shown(map[string]any{"url": "https://gpu.test:7443", "port": 7443, "address": "::", "certificateSecret": "tls"}, map[string]any{"impersonation": map[string]any{"enabled": true, "groups": []any{"oidc:a"}}}),
			want: configuration.Console{Port: 7443, Address: "::", URL: "https://gpu.test:7443", Certificate: "/etc/muster/console-certificate/tls.crt", Key: "/etc/muster/console-certificate/tls.key",
				OIDC: &configuration.OIDC{Impersonate: true, ImpersonateGroups: []string{"oidc:a"}}},
			files: []string{"/etc/muster/console-certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, Rendering{Values: c.values})
			text, _, err := unstructured.NestedString(find(objects, "ConfigMap", "muster-console").Object, "data", "console.yaml")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "console.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := configuration.LoadConsole(file)
			if err != nil {
				t.Fatal(err)
			}
			if c.want.OIDC == nil {
				c.want.OIDC = &configuration.OIDC{}
			}
			o := c.want.OIDC
			o.Issuer, o.ClientID, o.UsernameClaim, o.UsernamePrefix, o.GroupsClaim, o.GroupsPrefix = "https://sso.test", "muster", "sub", "oidc:", "groups", "oidc:"
			if o.Scopes == nil {
				o.Scopes = []string{"profile", "email"}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			manager := fmt.Sprint(find(objects, kindDeployment, "muster-manager").Object)
			for _, part := range append(c.files, "--console=/etc/muster/console/console.yaml", "muster.dev/console:") {
				if !strings.Contains(manager, part) {
					t.Errorf("the manager lacks %s", part)
				}
			}
		})
	}
}

// An agent that only pretends has no more rights on its machine than folders of
// the kubelet, of which it may read the pods'.
func TestAgentsPrivileges(t *testing.T) {
	for name, c := range map[string]struct {
		agent      map[string]any
		privileged bool
	}{
		"real GPUs":    {map[string]any{"create": true}, true},
		"pretend GPUs": {map[string]any{"create": true, "simulateGPUs": "8xA100"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, Rendering{Values: map[string]any{"agent": c.agent}})
			containers, _, err := unstructured.NestedSlice(find(objects, "DaemonSet", "muster-node").Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			privileged, _, _ := unstructured.NestedBool(containers[0].(map[string]any), "securityContext", "privileged")
			if privileged != c.privileged {
				t.Errorf("privileged: %t", privileged)
			}
			for _, mount := range containers[0].(map[string]any)["volumeMounts"].([]any) {
				if m := mount.(map[string]any); m["name"] == "pods" && m["readOnly"] != true {
					t.Errorf("it may write into pods: %v", m)
				}
			}
			standard := find(objects, "Namespace", "muster-system").GetLabels()["pod-security.kubernetes.io/enforce"]
			if standard != "privileged" {
				t.Errorf("its namespace is %s, which refuses folders of the machine", standard)
			}
		})
	}
	if standard := find(render(t, Rendering{}), "Namespace", "muster-system").GetLabels()["pod-security.kubernetes.io/enforce"]; standard != "restricted" {
		t.Errorf("without agents the namespace is %s", standard)
	}
}

// kept are values with a place for data.
func kept(data map[string]any) map[string]any { return map[string]any{"data": data} }

// TestWhereDataIs is told to the manager, with keys of its own.
func TestWhereDataIs(t *testing.T) {
	values := kept(map[string]any{
		"prefix": "sets", "quota": "5Gi", "persistentVolumeClaim": "",
		"s3": map[string]any{"endpoint": "https://s3.test", "bucket": "b", "region": "r", "secret": "keys"},
	})
	text, err := yaml.Marshal(find(render(t, Rendering{Values: values}), "Deployment", "muster-manager"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--data=true", "--data-prefix=sets", "--data-quota=5Gi", "--data-ahead=true", "--data-s3-endpoint=https://s3.test", "--data-s3-bucket=b", "--data-s3-region=r", "MUSTER_DATA_ACCESS_KEY_ID"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the manager is not given %s", want)
		}
	}
	text, err = yaml.Marshal(find(render(t, Rendering{Values: kept(map[string]any{"persistentVolumeClaim": "sets"})}), "Deployment", "muster-manager"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--data-folder=/var/lib/muster/data", "mountPath: /var/lib/muster/data", "claimName: sets"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the manager is not given %s", want)
		}
	}
}

// TestTheGateway is on a port of the manager's own, behind a Service; without it the
// manager may neither read Secrets nor ask what others may do.
func TestTheGateway(t *testing.T) {
	written := func(on bool, kind, name string) string {
		values := kept(map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{
			"enabled": on, "port": 9443, "keyLife": "8h", "service": map[string]any{"type": "LoadBalancer", "annotations": map[string]any{"a": "b"}},
		}})
		text, err := yaml.Marshal(find(render(t, Rendering{Values: values}), kind, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct{ kind, name, has string }{
		{"Deployment", "muster-manager", "--gateway=:9443"},
		{"Deployment", "muster-manager", "--gateway-endpoint=https://muster-gateway.muster-system.svc:9443"},
		{"Deployment", "muster-manager", "--gateway-key-life=8h"},
		{"Deployment", "muster-manager", "containerPort: 9443"},
		{"Service", "muster-gateway", "type: LoadBalancer"},
		{"Service", "muster-gateway", "a: b"},
		{"Service", "muster-gateway", "targetPort: gateway"},
		{"Role", "muster-manager", "secrets"},
		{"ClusterRole", "muster-manager", "subjectaccessreviews"},
	} {
		if !strings.Contains(written(true, c.kind, c.name), c.has) {
			t.Errorf("%s %s lacks %s", c.kind, c.name, c.has)
		}
		if c.kind != "Service" && strings.Contains(written(false, c.kind, c.name), c.has) {
			t.Errorf("%s %s has %s without a gateway", c.kind, c.name, c.has)
		}
	}
	if strings.Contains(written(true, "ClusterRole", "muster-manager"), "secrets") {
		t.Error("the manager may read Secrets of any namespace")
	}
}

// stored are values with a store of code, with agents or without.
func stored(store map[string]any, agents bool) map[string]any {
	return map[string]any{"store": store, "agent": map[string]any{"create": agents}}
}

// fronted are values with a gateway of which one thing is otherwise.
func fronted(name string, value any) map[string]any {
	return kept(map[string]any{"persistentVolumeClaim": "c", "gateway": map[string]any{"enabled": true, name: value}})
}

func set(group, name string, value any) map[string]any {
	return map[string]any{group: map[string]any{name: value}}
}

func TestTooOld(t *testing.T) {
	for name, c := range map[string]struct {
		server Server
		want   string
	}{
		"new enough":       {Server{Version: "v1.34.0"}, ""},
		"a vendor's":       {Server{Version: "v1.35.2-gke.100+k3s1"}, ""},
		"too old":          {Server{Version: "v1.30.4"}, "Kubernetes v1.30.4 and Muster needs 1.34"},
		"nameless, recent": {Server{Version: "v0.0.0-master+$Format:%H$", Recent: true}, ""},
		"nameless, old":    {Server{Version: "v0.0.0-master+$Format:%H$"}, "does not serve resource.k8s.io/v1"},
		"nonsense":         {Server{Version: "new"}, "Muster needs Kubernetes 1.34"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tooOld(c.server); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestLosses(t *testing.T) {
	ours := find(render(t, Rendering{}), kindCRD, "queues.muster.dev")
	there := ours.DeepCopy()
	if lost := losses(there, ours); len(lost) != 0 {
		t.Errorf("of itself: %v", lost)
	}
	versions, _, _ := unstructured.NestedSlice(there.Object, "spec", "versions")
	more := map[string]any{"type": "array", "items": map[string]any{"type": "object", "properties": map[string]any{"b": map[string]any{"type": "string"}}}}
	if err := unstructured.SetNestedMap(versions[0].(map[string]any), more, "schema", "openAPIV3Schema", "properties", "spec", "properties", "a"); err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedSlice(there.Object, versions, "spec", "versions")
	if diff := cmp.Diff([]string{"v1alpha1 spec.a", "v1alpha1 spec.a.b"}, losses(there, ours)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lost := losses(ours, there); len(lost) != 0 {
		t.Errorf("a newer one in its place loses %v", lost)
	}
}

// The values list the signs that the program knows by itself.
func TestSignsOfDepartureAreThoseKnown(t *testing.T) {
	manager := find(render(t, Rendering{}), "Deployment", "muster-manager")
	containers, _, err := unstructured.NestedSlice(manager.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatal(containers, err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, arg := range args {
		if sign, is := strings.CutPrefix(arg, "--departure-sign="); is {
			got = append(got, sign)
		}
	}
	for _, sign := range departure.Known() {
		want = append(want, sign.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The manager reads Secrets of other namespaces nowhere but where that was given.
func TestSecretsOfOthers(t *testing.T) {
	objects := render(t, Rendering{Values: map[string]any{"pipelines": map[string]any{"secretNamespaces": []any{"vision", "speech"}}}})
	var bound []string
	for _, o := range objects {
		ref, _, err := unstructured.NestedString(o.Object, "roleRef", "name")
		if err != nil {
			t.Fatal(err)
		}
		if ref == "muster-pipelines-secrets" {
			bound = append(bound, o.GetKind()+" in "+o.GetNamespace())
		}
	}
	slices.Sort(bound)
	if diff := cmp.Diff([]string{"RoleBinding in speech", "RoleBinding in vision"}, bound); diff != "" {
		t.Error(diff)
	}
	manager := find(render(t, Rendering{}), "ClusterRole", "muster-manager")
	rules, _, err := unstructured.NestedSlice(manager.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		resources, _ := fields["resources"].([]any)
		if slices.Contains(resources, any("secrets")) {
			t.Errorf("it has everywhere: %v", rule)
		}
	}
}

// Tags of images are looked up where that is asked for, by the Secret that is named.
func TestTagsAreLookedUp(t *testing.T) {
	for _, c := range []struct {
		values map[string]any
		has    []string
		lacks  []string
	}{
		{nil, nil, []string{"--look-up-tags", "registries"}},
		{map[string]any{"secret": "let-in"}, nil, []string{"--look-up-tags", "registries"}},
		{map[string]any{"lookUp": true}, []string{"- --look-up-tags\n"}, []string{"registries"}},
		{map[string]any{"lookUp": true, "secret": "let-in"}, []string{"- --look-up-tags\n", "- --registry-config=/etc/muster/registries/.dockerconfigjson\n", "mountPath: /etc/muster/registries\n", "secretName: let-in\n"}, nil},
	} {
		manager := find(render(t, Rendering{Values: map[string]any{"pipelines": map[string]any{"tags": c.values}}}), kindDeployment, "muster-manager")
		text, err := yaml.Marshal(manager.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range c.has {
			if !strings.Contains(string(text), words) {
				t.Errorf("%v: there is no %q", c.values, words)
			}
		}
		for _, words := range c.lacks {
			if strings.Contains(string(text), words) {
				t.Errorf("%v: there is %q", c.values, words)
			}
		}
	}
	if _, err := Render(Rendering{Version: "v1.2.3", Values: map[string]any{"pipelines": map[string]any{"tags": map[string]any{"lookUp": "yes"}}}}); err == nil || !strings.Contains(err.Error(), "lookUp") {
		t.Errorf("neither true nor false: %v", err)
	}
}

// Authorities of one's own are mounted, and the manager is told where.
func TestAuthorities(t *testing.T) {
	for _, name := range []string{"", "ours"} {
		manager := find(render(t, Rendering{Values: map[string]any{"manager": map[string]any{"authorities": name}}}), kindDeployment, "muster-manager")
		text, err := yaml.Marshal(manager.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{"- --authorities=/etc/muster/authorities\n", "- configMap:\n", "name: ours\n", "mountPath: /etc/muster/authorities\n"} {
			if got := strings.Contains(string(text), words); got != (name != "") {
				t.Errorf("%q: has %q: %t", name, words, got)
			}
		}
	}
}

// Where outputs may be copied to is told to the manager, and what is no range of
// addresses is refused before anything is installed.
func TestWhereOutputsMayGo(t *testing.T) {
	values := func(allow string) map[string]any {
		return map[string]any{"pipelines": map[string]any{"egress": map[string]any{"enabled": false, "allow": []any{allow}, "refuse": []any{"10.0.0.0/8", "fd00::/8"}}}}
	}
	manager := find(render(t, Rendering{Values: values("127.0.0.0/8")}), kindDeployment, "muster-manager")
	text, err := yaml.Marshal(manager.Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--egress=false", "--egress-allow=127.0.0.0/8", "--egress-refuse=10.0.0.0/8", "--egress-refuse=fd00::/8"} {
		if !strings.Contains(string(text), "- "+flag+"\n") {
			t.Errorf("it is not told %s", flag)
		}
	}
	if _, err := Render(Rendering{Version: "v1.2.3", Values: values("127.0.0.1")}); err == nil || !strings.Contains(err.Error(), "allow") {
		t.Errorf("an address alone: %v", err)
	}
}
