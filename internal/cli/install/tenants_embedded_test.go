//go:build embedded

package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// The people of these tests, beside those of the others.
const (
	bob  = "bob@example.com"  // a user of Muster: the role muster-user in namespace lab, and queue vision
	boss = "boss@example.com" // the role muster-admin

	collector = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// kinds are the kinds for which Muster makes pods of a user, as YAML: %[1]s is a template of
// pods, %[2]s are further fields of the spec, and %[3]s the metadata beside the name.
var kinds = map[string]string{
	"TrainingJob": `{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: a, namespace: lab%[3]s},
		spec: {queue: vision%[2]s, roles: [{name: worker, command: [a], template: %[1]s}]}}`,
	"Pipeline": `{apiVersion: muster.dev/v1alpha1, kind: Pipeline, metadata: {name: a, namespace: lab%[3]s},
		spec: {queue: vision%[2]s, stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {roles: [{name: worker, command: [a], template: %[1]s}]}}]}}`,
	"PipelineRun": `{apiVersion: muster.dev/v1alpha1, kind: PipelineRun, metadata: {name: a, namespace: lab%[3]s},
		spec: {queue: vision%[2]s, pipeline: p, identity: a, stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {roles: [{name: worker, command: [a], template: %[1]s}]}}]}}`,
	"TFJob": `{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: a, namespace: lab%[3]s},
		spec: {runPolicy: {schedulingPolicy: {queue: vision}}%[2]s, tfReplicaSpecs: {Worker: {replicas: 1, template: %[1]s}}}}`,
	"PyTorchJob": `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a, namespace: lab%[3]s},
		spec: {runPolicy: {schedulingPolicy: {queue: vision}}%[2]s, pytorchReplicaSpecs: {Master: {replicas: 1, template: %[1]s}}}}`,
}

const (
	plainContainer = `{name: main, image: busybox}`
	plainTemplate  = `{spec: {containers: [` + plainContainer + `]}}`
)

// made is an object of one of these kinds.
func made(t *testing.T, kind, template, spec, metadata string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(kinds[kind], template, spec, metadata)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o
}

// container is a template whose container has further fields, and the pod others.
func container(fields, pod string) string {
	return `{spec: {containers: [{name: main, image: busybox` + fields + `}]` + pod + `}}`
}

// Refusals, in part.
const (
	isReserved  = "Muster itself sets"
	isAccount   = "may not run members as service account"
	isPriority  = "priority classes that begin with system-"
	isHost      = "hostNetwork, hostPID and hostIPC are not allowed"
	isVolume    = "volumes that a node mounts from its own folders"
	isPort      = "a hostPort is not allowed"
	isProbe     = "a host in a probe or in lifecycle is not allowed"
	isPrivilege = "privileged containers"
	isContext   = "a security context with runAsUser 0"
	isSysctl    = "only sysctls that are a pod's own"
	isBuild     = "attribute build is for pods of Muster that build environments"
	isQueue     = "may not use queue nlp"
	isDevice    = "may not use device claims"
)

// templates are templates of pods that a tenant may write, and the refusal of each; empty:
// the policies allow it.
var templates = map[string]struct{ template, says string }{
	"nothing special":          {plainTemplate, ""},
	"own labels":               {`{metadata: {labels: {a: b, example.com/c: d}, annotations: {a: b}}, spec: {containers: [` + plainContainer + `]}}`, ""},
	"label build":              {`{metadata: {labels: {muster.dev/build: x}}, spec: {containers: [` + plainContainer + `]}}`, isReserved},
	"label gang":               {`{metadata: {labels: {muster.dev/gang: other}}, spec: {containers: [` + plainContainer + `]}}`, isReserved},
	"label of a subdomain":     {`{metadata: {labels: {a.muster.dev/b: x}}, spec: {containers: [` + plainContainer + `]}}`, isReserved},
	"annotation GPUs":          {`{metadata: {annotations: {muster.dev/gpus: GPU-1}}, spec: {containers: [` + plainContainer + `]}}`, isReserved},
	"account":                  {container("", ", serviceAccountName: trainer"), isAccount},
	"account, old name":        {container("", ", serviceAccount: trainer"), isAccount},
	"account default":          {container("", ", serviceAccountName: default"), ""},
	"token of default":         {container("", ", automountServiceAccountToken: true"), isAccount},
	"projected token":          {container("", ", volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t}}]}}]"), isAccount},
	"certificate of default":   {container("", ", volumes: [{name: t, projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519, credentialBundlePath: t}}]}}]"), isAccount},
	"another member's GPUs":    {container("", ", resourceClaims: [{name: g, resourceClaimName: lab-worker-0-abcde}]"), isDevice},
	"a key without a value":    {container(", env: null, ports: null", ", volumes: null, initContainers: null, securityContext: null"), ""},
	"no token":                 {container("", ", automountServiceAccountToken: false"), ""},
	"account that bob acts as": {container("", ", serviceAccountName: helper"), ""},
	"own secret in a volume":   {container("", ", volumes: [{name: s, secret: {secretName: s}}]"), ""},
	"node-critical":            {container("", ", priorityClassName: system-node-critical"), isPriority},
	"cluster-critical":         {container("", ", priorityClassName: system-cluster-critical"), isPriority},
	"another class":            {container("", ", priorityClassName: high"), ""},
	"hostNetwork":              {container("", ", hostNetwork: true"), isHost},
	"hostPID":                  {container("", ", hostPID: true"), isHost},
	"hostIPC":                  {container("", ", hostIPC: true"), isHost},
	"hostPath":                 {container("", ", volumes: [{name: h, hostPath: {path: /}}]"), isVolume},
	"flexVolume":               {container("", ", volumes: [{name: h, flexVolume: {driver: a/b}}]"), isVolume},
	"nfs":                      {container("", ", volumes: [{name: h, nfs: {server: a, path: /}}]"), isVolume},
	"disk of the cloud":        {container("", ", volumes: [{name: h, awsElasticBlockStore: {volumeID: a}}]"), isVolume},
	"gitRepo":                  {container("", ", volumes: [{name: h, gitRepo: {repository: a}}]"), isVolume},
	"usual volumes":            {container("", ", volumes: [{name: e, emptyDir: {}}, {name: c, configMap: {name: c}}, {name: d, downwardAPI: {items: []}}, {name: p, persistentVolumeClaim: {claimName: c}}]"), ""},
	"hostPort":                 {container(", ports: [{containerPort: 80, hostPort: 80}]", ""), isPort},
	"port":                     {container(", ports: [{containerPort: 80}]", ""), ""},
	"probe of the pod":         {container(", livenessProbe: {httpGet: {port: 80}}, readinessProbe: {tcpSocket: {port: 80}}, lifecycle: {preStop: {exec: {command: [a]}}}", ""), ""},
	"probe of the node":        {container(", livenessProbe: {httpGet: {host: 127.0.0.1, port: 80}}", ""), isProbe},
	"ready by another":         {container(", readinessProbe: {tcpSocket: {host: a, port: 80}}", ""), isProbe},
	"started by another":       {container("", ", initContainers: [{name: i, image: a, restartPolicy: Always, startupProbe: {httpGet: {host: a, port: 80}}}]"), isProbe},
	"hook after the start":     {container(", lifecycle: {postStart: {httpGet: {host: 169.254.169.254, port: 80}}}", ""), isProbe},
	"hook before the end":      {container(", lifecycle: {preStop: {httpGet: {host: a, port: 80}}}", ""), isProbe},
	"privileged":               {container(", securityContext: {privileged: true}", ""), isPrivilege},
	"privileged, not first":    {container("", ", initContainers: [{name: i, image: a, securityContext: {privileged: true}}]"), isPrivilege},
	"capability":               {container(", securityContext: {capabilities: {add: [SYS_ADMIN]}}", ""), isPrivilege},
	"usual capability":         {container(", securityContext: {capabilities: {add: [CHOWN], drop: [ALL]}}", ""), ""},
	"procMount":                {container(", securityContext: {procMount: Unmasked}", ""), isPrivilege},
	"root":                     {container(", securityContext: {runAsUser: 0}", ""), isContext},
	"root of the pod":          {container("", ", securityContext: {runAsUser: 0}"), isContext},
	"root, init container":     {container("", ", initContainers: [{name: i, image: a, securityContext: {runAsUser: 0}}]"), isContext},
	"another user":             {container(", securityContext: {runAsUser: 1000}", ", securityContext: {fsGroup: 1000}"), ""},
	"unconfined":               {container("", ", securityContext: {seccompProfile: {type: Unconfined}}"), isContext},
	"unconfined AppArmor":      {container(", securityContext: {appArmorProfile: {type: Unconfined}}", ""), isContext},
	"SELinux":                  {container("", ", securityContext: {seLinuxOptions: {type: spc_t}}"), isContext},
	"host process":             {container("", ", securityContext: {windowsOptions: {hostProcess: true}}"), isContext},
	"sysctl":                   {container("", ", securityContext: {sysctls: [{name: kernel.msgmax, value: \"1\"}]}"), isSysctl},
	"own sysctl":               {container("", ", securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: \"1\"}]}"), ""},
	"folder of a build":        {container("", ", volumes: [{name: e, csi: {driver: environment.muster.dev, volumeAttributes: {key: a, build: \"true\"}}}]"), isBuild},
	"folder of a build, no":    {container("", ", volumes: [{name: e, csi: {driver: environment.muster.dev, volumeAttributes: {key: a, build: \"false\"}}}]"), isBuild},
}

// specs are other fields of a kind's spec and metadata that a tenant may write.
var specs = map[string]map[string]struct{ spec, metadata, says string }{
	"TrainingJob": {
		"node-critical": {", priorityClassName: system-node-critical", "", isPriority},
		"another class": {", priorityClassName: high", "", ""},
		"secret":        {", env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]", "", ""},
		"run's label":   {"", ", labels: {muster.dev/pipeline-run: r}", isReserved},
		"versions":      {"", ", annotations: {muster.dev/versions: x}", isReserved},
		"any label":     {"", ", labels: {a: b}", ""},
	},
	"Pipeline": {
		"label":      {"", ", labels: {muster.dev/pipeline: x}", isReserved},
		"annotation": {"", ", annotations: {muster.dev/evict: x}", isReserved},
	},
	"PipelineRun": {
		"its pipeline's label":     {"", ", labels: {muster.dev/pipeline: p}", ""},
		"another pipeline's label": {"", ", labels: {muster.dev/pipeline: q}", isReserved},
		"a stage's label":          {"", ", labels: {muster.dev/pipeline-stage: s}", isReserved},
	},
	"TFJob": {
		"another's queue": {"", ", labels: {muster.dev/queue: nlp}", isQueue},
		"own queue":       {"", ", labels: {muster.dev/queue: vision}", ""},
		"label":           {"", ", labels: {muster.dev/gang: x}", isReserved},
	},
	"PyTorchJob": {
		"another's queue": {"", ", labels: {muster.dev/queue: nlp}", isQueue},
		"label":           {"", ", labels: {muster.dev/job: x}", isReserved},
	},
}

// TestTenants tries each kind that a user of Muster may create with each field that leads
// to a queue, a priority, an account, a secret, a submitter, the machine, or Muster's own
// labels.
func TestTenants(t *testing.T) {
	server := rehearsal.StartCluster(t)
	server.Run(t, []rehearsal.Step{{Args: "install --no-wait --set manager.replicas=0 --set agent.create=true", Says: "is applied"}})
	if t.Failed() {
		return
	}
	furnishLab(t, server)
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			for name, c := range templates {
				t.Run("template/"+name, func(t *testing.T) {
					if name == "account default" && strings.HasPrefix(kinds[kind], "{apiVersion: kubeflow.org") {
						c.says = isAccount // the controller of these kinds mounts the token of a named account
					}
					policyCase{as: bob, object: made(t, kind, c.template, "", ""), says: c.says}.try(t, server)
				})
			}
			for name, c := range specs[kind] {
				t.Run("spec/"+name, func(t *testing.T) {
					policyCase{as: bob, object: made(t, kind, plainTemplate, c.spec, c.metadata), says: c.says}.try(t, server)
				})
			}
			t.Run("submitter", func(t *testing.T) { stamped(t, server, kind) })
			t.Run("namespaces", func(t *testing.T) { inNamespaces(t, server, kind) })
			t.Run("administrator", func(t *testing.T) { asAdministrator(t, server, kind) })
			t.Run("changes", func(t *testing.T) { changed(t, server, kind) })
			t.Run("relaxed", func(t *testing.T) {
				o := made(t, kind, container(", securityContext: {privileged: true}", ", hostNetwork: true, volumes: [{name: h, hostPath: {path: /}}]"), "", "")
				o.SetNamespace("trusted")
				policyCase{object: o}.try(t, server)
			})
		})
	}
	t.Run("queues", func(t *testing.T) { stageQueues(t, server) })
	t.Run("priorities", func(t *testing.T) { systemPriorities(t, server) })
	t.Run("pods", func(t *testing.T) { rawPods(t, server) })
	t.Run("secrets", func(t *testing.T) { tokenSecrets(t, server) })
	t.Run("manager", func(t *testing.T) { managerItself(t, server) })
	t.Run("administrator", func(t *testing.T) { administrator(t, server) })
}

// furnishLab makes the namespace of a user of Muster, and waits until policies hold.
func furnishLab(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "lab", Name: name} }
	user := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	}
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{"muster.dev/user": "bob"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "trusted", Labels: map[string]string{"muster.dev/pod-security": "privileged"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "free"}},
		&corev1.ServiceAccount{ObjectMeta: named("default")},
		&corev1.ServiceAccount{ObjectMeta: named("bob")},
		&rbacv1.RoleBinding{ObjectMeta: named("user"), Subjects: user(bob), RoleRef: role("ClusterRole", "muster-user")},
		&rbacv1.Role{ObjectMeta: named("more"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"muster.dev"}, Resources: []string{"queues"}, ResourceNames: []string{"vision"}, Verbs: []string{"use"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"helper"}, Verbs: []string{"impersonate"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: named("more"), Subjects: user(bob), RoleRef: role("Role", "more")},
		// An administrator might give these rights by mistake. The policy applies all the same.
		&rbacv1.Role{ObjectMeta: named("loose"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"update", "patch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: named("loose"), Subjects: user(bob), RoleRef: role("Role", "loose")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "boss"}, Subjects: user(boss), RoleRef: role("ClusterRole", "muster-admin")},
	} {
		if err := client.IgnoreAlreadyExists(server.Client.Create(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
	for kind := range kinds {
		for _, name := range []string{"label gang", "hostPID", "node-critical"} {
			c := policyCase{as: bob, object: made(t, kind, templates[name].template, "", ""), says: templates[name].says}
			rehearsal.Eventually(t, "policies hold for a "+kind, func(context.Context) bool {
				err := c.attempt(t, server)
				return err != nil && strings.Contains(err.Error(), c.says)
			})
		}
	}
	for _, c := range []policyCase{
		{as: bob, object: made(t, "TrainingJob", plainTemplate, ", env: []", ", annotations: {muster.dev/evict: x}"), says: isReserved},
		{object: inNamespace("kube-public", pod(annotated(v1alpha1.AnnotationGPUs))), says: "written by Muster alone"},
		{object: inNamespace("lab", pod(func(p *corev1.Pod) { p.Spec.HostPID = true })), says: isHost},
		{as: managerAccount, groups: []string{"system:masters"}, object: inNamespace("free", pod()), says: "and no others"},
		{object: tokenOf("bob"), says: ""},
		{as: bob, object: tokenOf("bob"), says: "that never ends"},
	} {
		rehearsal.Eventually(t, "policies hold: "+c.says, func(context.Context) bool {
			err := c.attempt(t, server)
			return c.says == "" && err == nil || err != nil && c.says != "" && strings.Contains(err.Error(), c.says)
		})
	}
	for kind := range kinds {
		rehearsal.Eventually(t, "stamps are put on a "+kind, func(context.Context) bool {
			o := made(t, kind, plainTemplate, "", "")
			return policyCase{as: bob, object: o}.attempt(t, server) == nil && o.GetAnnotations()[v1alpha1.AnnotationSubmitter] == bob
		})
	}
}

func inNamespace(namespace string, o client.Object) client.Object {
	o.SetNamespace(namespace)
	if p, ok := o.(*corev1.Pod); ok {
		p.Spec.ServiceAccountName = ""
	}
	return o
}

// stamped submits an object with another user's name. The API server replaces it by the name
// of the submitter, and refuses later changes of the name.
func stamped(t *testing.T, server *rehearsal.Server, kind string) {
	const eve = `, annotations: {muster.dev/submitter: "eve@example.com", muster.dev/submitter-authenticated: "true"}`
	o := made(t, kind, plainTemplate, "", eve)
	policyCase{as: bob, object: o}.try(t, server)
	if got := o.GetAnnotations()[v1alpha1.AnnotationSubmitter]; got != bob {
		t.Errorf("the submitter is %q", got)
	}
	later := policyCase{as: bob, object: made(t, kind, plainTemplate, "", ""), says: "cannot be changed", change: func(o client.Object) {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationSubmitter: "eve@example.com", v1alpha1.AnnotationAuthenticated: "true"})
	}}
	later.try(t, server)
}

// inNamespaces tries the namespaces of the cluster and of Muster, as users with all rights.
func inNamespaces(t *testing.T, server *rehearsal.Server, kind string) {
	for namespace, says := range map[string]string{
		"kube-system": "no jobs run in namespace kube-system", "kube-public": "no jobs run in", v1alpha1.SystemNamespace: "no jobs run in", "lab": "",
	} {
		for _, who := range []policyCase{{}, {as: boss}, {as: managerAccount, groups: []string{"system:masters"}}} {
			if who.as == managerAccount && namespace == "lab" {
				continue
			}
			o := made(t, kind, plainTemplate, "", "")
			o.SetNamespace(namespace)
			policyCase{as: who.as, groups: who.groups, object: o, says: says}.try(t, server)
		}
	}
}

// asAdministrator uses a tenant's secrets, accounts and claims in jobs of an administrator
// who may neither read nor write them.
func asAdministrator(t *testing.T, server *rehearsal.Server, kind string) {
	for name, c := range map[string]struct{ template, says string }{
		"plain":             {plainTemplate, ""},
		"account":           {container("", ", serviceAccountName: helper"), isAccount},
		"secret, volume":    {container("", ", volumes: [{name: s, secret: {secretName: s}}]"), "may not read the secrets"},
		"secret, projected": {container("", ", volumes: [{name: s, projected: {sources: [{secret: {name: s}}]}}]"), "may not read the secrets"},
		"secret, variable":  {container(", env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]", ""), "may not read the secrets"},
		"secret, variables": {container(", envFrom: [{secretRef: {name: s}}]", ""), "may not read the secrets"},
		"secret, init":      {container("", ", initContainers: [{name: i, image: a, envFrom: [{secretRef: {name: s}}]}]"), "may not read the secrets"},
		"secret, pull":      {container("", ", imagePullSecrets: [{name: s}]"), "may not read the secrets"},
		"secret, driver":    {container("", ", volumes: [{name: s, csi: {driver: d, nodePublishSecretRef: {name: s}}}]"), "may not read the secrets"},
		"claim":             {container("", ", volumes: [{name: s, persistentVolumeClaim: {claimName: c}}]"), "may not use the claims"},
		"copy of a claim":   {container("", ", volumes: [{name: s, ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: c}}}}}]"), "may not use the claims"},
		"copy by reference": {container("", ", volumes: [{name: s, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: c}}}}}]"), "may not use the claims"},
		"a volume by name":  {container("", ", volumes: [{name: s, ephemeral: {volumeClaimTemplate: {spec: {volumeName: v}}}}]"), "may not use the claims"},
		"an empty volume":   {container("", ", volumes: [{name: s, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}]"), ""},
		"folder":            {container("", ", volumes: [{name: s, emptyDir: {}}]"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			policyCase{as: boss, object: made(t, kind, c.template, "", ""), says: c.says}.try(t, server)
		})
	}
	if kind == "TrainingJob" {
		for spec, says := range map[string]string{
			", env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]": "may not read the secrets",
			", environment: {requirements: six, indexSecret: s}":               "may not read the secrets",
			", environment: {requirements: six}":                               "",
			", volumes: [{name: d, claim: c, mountPath: /d}]":                  "may not use the claims",
			", checkpoints: {claim: c}":                                        "may not use the claims",
			", volumes: [{name: d, size: 1Gi, mountPath: /d}]":                 "",
		} {
			policyCase{as: boss, object: made(t, kind, plainTemplate, spec, ""), says: says}.try(t, server)
		}
	}
}

// changed edits objects of a tenant. The policies judge only changes of the fields that make
// up pods, by the rights of the user who changes them.
func changed(t *testing.T, server *rehearsal.Server, kind string) {
	secret := container("", ", volumes: [{name: s, secret: {secretName: s}}]")
	as := func(template string) func(client.Object) {
		return func(o client.Object) {
			o.(*unstructured.Unstructured).Object["spec"] = made(t, kind, template, "", "").Object["spec"]
		}
	}
	label := func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }
	old := `{metadata: {labels: {muster.dev/gang: other}}, spec: {priorityClassName: system-node-critical, containers: [` + plainContainer + `]}}`
	finalizer := func(o client.Object) { o.SetFinalizers([]string{"example.com/a"}) }
	for name, c := range map[string]policyCase{
		"a label, by the administrator":      {as: boss, object: made(t, kind, secret, "", ""), change: label},
		"a template, by the administrator":   {as: boss, object: made(t, kind, plainTemplate, "", ""), change: as(secret), says: "may not read the secrets"},
		"a template, by its owner":           {as: bob, object: made(t, kind, plainTemplate, "", ""), change: as(secret)},
		"a template, towards the machine":    {as: bob, object: made(t, kind, plainTemplate, "", ""), change: as(templates["hostPath"].template), says: isVolume},
		"a template, with Muster's label":    {as: bob, object: made(t, kind, plainTemplate, "", ""), change: as(templates["label gang"].template), says: isReserved},
		"a label of Muster's":                {as: bob, object: made(t, kind, plainTemplate, "", ""), change: func(o client.Object) { o.SetLabels(map[string]string{v1alpha1.LabelGang: "x"}) }, says: isReserved},
		"a label of Muster's, removed":       {as: bob, object: made(t, kind, plainTemplate, "", ", labels: {muster.dev/job: x}"), change: func(o client.Object) { o.SetLabels(nil) }, says: isReserved},
		"an object from before, collected":   {as: collector, object: made(t, kind, old, "", ""), change: finalizer},
		"an object from before, by bob":      {as: bob, object: made(t, kind, old, "", ""), change: label},
		"a label of Muster's, left as it is": {as: bob, object: made(t, kind, plainTemplate, "", ", labels: {muster.dev/job: x}"), change: func(o client.Object) { o.SetAnnotations(withAnnotation(o, "a", "b")) }},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "from before") || strings.Contains(name, "removed") || strings.Contains(name, "left as") {
				madeByMuster(t, server, c)
				return
			}
			c.try(t, server)
		})
	}
	if kind == "TrainingJob" || kind == "Pipeline" {
		index := func(o client.Object) {
			o.(*unstructured.Unstructured).Object["spec"].(map[string]any)["environment"] = map[string]any{"requirements": "six", "indexSecret": "s"}
		}
		t.Run("a Secret for indexes, by the administrator", func(t *testing.T) {
			policyCase{as: boss, object: made(t, kind, plainTemplate, "", ""), change: index, says: "may not read the secrets"}.try(t, server)
		})
		program := func(o client.Object) {
			o.(*unstructured.Unstructured).Object["spec"].(map[string]any)["environment"] = map[string]any{"image": "another"}
		}
		t.Run("the program, by the administrator", func(t *testing.T) {
			policyCase{as: boss, object: made(t, kind, secret, "", ""), change: program, says: "may not read the secrets"}.try(t, server)
		})
	}
}

func withAnnotation(o client.Object, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range o.GetAnnotations() {
		out[k] = v
	}
	return out
}

// madeByMuster changes an object that the manager made.
func madeByMuster(t *testing.T, server *rehearsal.Server, c policyCase) {
	t.Helper()
	owner := made(t, "Pipeline", plainTemplate, "", "") // the garbage collector looks for it
	owner.SetName("owner")
	if err := client.IgnoreAlreadyExists(server.Client.Create(t.Context(), owner)); err != nil {
		t.Fatal(err)
	}
	if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(owner), owner); err != nil {
		t.Fatal(err)
	}
	c.object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "muster.dev/v1alpha1", Kind: "Pipeline", Name: "owner", UID: owner.GetUID()}})
	if err := as(t, server, managerAccount, "system:masters").Create(t.Context(), c.object); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Client.Delete(context.WithoutCancel(t.Context()), c.object) }()
	after := c.object.DeepCopyObject().(client.Object)
	c.change(after)
	judge(t, as(t, server, c.as).Patch(t.Context(), after, client.MergeFrom(c.object), client.DryRunAll), c.says)
}

// stageQueues names queues in stages of training.
func stageQueues(t *testing.T, server *rehearsal.Server) {
	stage := func(name, queue string) string {
		return fmt.Sprintf(`{name: %s, input: {dataset: raw, glob: "/*"}, training: {queue: %q, roles: [{name: w, command: [a]}]}}`, name, queue)
	}
	for name, c := range map[string]struct{ queue, stages, says string }{
		"own":                   {"vision", stage("s", "vision"), ""},
		"none":                  {"vision", stage("s", ""), ""},
		"another's in a stage":  {"vision", stage("s", "nlp"), "may not use queue nlp"},
		"another's in the last": {"vision", stage("s", "vision") + ", " + stage("t", "nlp"), "may not use queue nlp"},
		"several":               {"vision", stage("s", "nlp") + ", " + stage("t", "speech"), "may not use queue"},
		"another's":             {"nlp", stage("s", "vision"), "may not use queue nlp"},
		"default":               {"", stage("s", "vision"), "may not use queue default"},
	} {
		for kind, further := range map[string]string{"Pipeline": "", "PipelineRun": ", pipeline: p, identity: a"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				o := &unstructured.Unstructured{}
				text := fmt.Sprintf(`{apiVersion: muster.dev/v1alpha1, kind: %s, metadata: {name: a, namespace: lab}, spec: {queue: %q%s, stages: [%s]}}`, kind, c.queue, further, c.stages)
				if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
					t.Fatal(err)
				}
				policyCase{as: bob, object: o, says: c.says}.try(t, server)
			})
		}
	}
}

// rawPods makes pods in the namespace of a user of Muster, with all rights.
func rawPods(t *testing.T, server *rehearsal.Server) {
	from := func(template string) client.Object {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(template), &o.Object); err != nil {
			t.Fatal(err)
		}
		o.SetAPIVersion("v1")
		o.SetKind("Pod")
		o.SetName("raw")
		o.SetNamespace("lab")
		return o
	}
	for name, c := range templates {
		switch c.says {
		case isAccount, isPriority, isDevice: // the rules of Kubernetes apply to a user who may make pods
			continue
		case isReserved:
			c.says = "written by Muster alone"
		}
		switch name {
		case "host process", "procMount": // Kubernetes refuses them as they are written
			continue
		case "account default", "account that bob acts as", "another class": // the account and the class do not exist
			continue
		}
		t.Run(name, func(t *testing.T) { policyCase{object: from(c.template), says: c.says}.try(t, server) })
	}
	t.Run("elsewhere", func(t *testing.T) {
		o := from(templates["hostPath"].template)
		o.SetNamespace("free")
		policyCase{object: o}.try(t, server)
	})
	t.Run("debug container", func(t *testing.T) {
		p := inNamespace("lab", pod()).(*corev1.Pod)
		if err := server.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		yes := true
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "busybox", SecurityContext: &corev1.SecurityContext{Privileged: &yes},
		}}}
		judge(t, as(t, server, bob).SubResource("ephemeralcontainers").Update(t.Context(), p, client.DryRunAll), isPrivilege)
		p.Spec.EphemeralContainers[0].SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
		judge(t, as(t, server, bob).SubResource("ephemeralcontainers").Update(t.Context(), p, client.DryRunAll), isContext)
		p.Spec.EphemeralContainers = nil
		p.Labels = map[string]string{v1alpha1.LabelGang: "other"}
		judge(t, server.Client.Status().Update(t.Context(), p, client.DryRunAll), "written by Muster alone")
	})
	t.Run("a member of a gang", func(t *testing.T) {
		o := from(plainTemplate)
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "muster.dev/v1alpha1", Kind: "Gang", Name: "a", UID: "1", Controller: &yes}})
		policyCase{object: o, says: "made by Muster alone"}.try(t, server)
	})
}

func tokenOf(account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

// tokenSecrets has a tenant ask for tokens that never end.
func tokenSecrets(t *testing.T, server *rehearsal.Server) {
	there := tokenOf("bob")
	there.Name = "there"
	for name, c := range map[string]policyCase{
		"another account's, of a Secret that is there": {as: bob, object: there, says: "that never ends", change: func(o client.Object) {
			o.SetAnnotations(map[string]string{corev1.ServiceAccountNameKey: v1alpha1.DoorAccount})
		}},
		"one's own account":   {as: bob, object: tokenOf("bob"), says: "that never ends"},
		"the manager's door":  {as: bob, object: tokenOf(v1alpha1.DoorAccount), says: "that never ends"},
		"a password":          {as: bob, object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "token"}}},
		"by an administrator": {object: tokenOf("bob")},
	} {
		t.Run(name, func(t *testing.T) { c.try(t, server) })
	}
}

// managerItself tries requests that the manager never makes, with the manager's account.
func managerItself(t *testing.T, server *rehearsal.Server) {
	owned := func(kind string, o client.Object) client.Object {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "muster.dev/v1alpha1", Kind: kind, Name: "a", UID: "1"}})
		return o
	}
	of := func(namespace string) client.Object { return inNamespace(namespace, pod()) }
	const system, keys, sessions = v1alpha1.SystemNamespace, "muster.dev/access-keys", "muster.dev/console-sessions"
	endpoint := func(namespace, name string) client.Object {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	}
	secret := func(namespace, name string, kind corev1.SecretType) client.Object {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind}
		switch kind {
		case corev1.SecretTypeTLS:
			s.Data = map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}
		case corev1.SecretTypeServiceAccountToken:
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
		}
		return s
	}
	generated := secret(system, "", keys)
	generated.SetGenerateName("muster-access-keys-")
	configMap := func(namespace, name string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	lease := func(namespace, name string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	service := func(namespace string) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	}
	placeholder := func(change func(*corev1.Pod)) client.Object {
		return inNamespace(system, pod(func(p *corev1.Pod) {
			p.Labels, p.Spec.AutomountServiceAccountToken = map[string]string{v1alpha1.LabelPlaceholder: "a"}, new(false)
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox"}}
		}, change))
	}
	const others, hull = "and no others", "have no volumes, no variables and no token"
	for name, c := range map[string]policyCase{
		"a member":                   {object: owned("Gang", of("free"))},
		"a build":                    {object: owned("TrainingJob", of("free"))},
		"a pod without an owner":     {object: of("free"), says: others},
		"a pod of another kind":      {object: owned("Queue", of("free")), says: others},
		"a member in kube-system":    {object: owned("Gang", of("kube-system")), says: others},
		"a member in its own":        {object: owned("Gang", of(v1alpha1.SystemNamespace)), says: others},
		"a member on the machine":    {object: owned("Gang", inNamespace("free", pod(func(p *corev1.Pod) { p.Spec.HostPID = true }))), says: isHost},
		"a member in a trusted one":  {object: owned("Gang", inNamespace("trusted", pod(func(p *corev1.Pod) { p.Spec.HostPID = true })))},
		"a secret of others":         {object: secret("free", "a", corev1.SecretTypeOpaque), says: others},
		"a shard elsewhere":          {object: secret("free", "muster-access-keys-0", keys), says: others},
		"a shard":                    {object: secret(system, "muster-access-keys-0", keys)},
		"the last shard":             {object: secret(system, "muster-access-keys-7", keys)},
		"one shard too many":         {object: secret(system, "muster-access-keys-8", keys), says: others},
		"a shard of a made-up name":  {object: generated, says: others},
		"a shard of another type":    {object: secret(system, "muster-access-keys-0", corev1.SecretTypeServiceAccountToken), says: others},
		"a key of its own":           {object: secret(system, "access-key-mua", "muster.dev/access-key"), says: others},
		"the gateway's authority":    {object: secret(system, "muster-gateway-authority", corev1.SecretTypeTLS)},
		"another certificate":        {object: secret(system, "muster-tls", corev1.SecretTypeTLS), says: others},
		"a token as an authority":    {object: secret(system, "muster-gateway-authority", corev1.SecretTypeServiceAccountToken), says: others},
		"sessions of the console":    {object: secret(system, "muster-console-sessions", sessions)},
		"sessions elsewhere":         {object: secret("free", "muster-console-sessions", sessions), says: others},
		"sessions of another name":   {object: secret(system, "muster-values", sessions), says: others},
		"sessions of another type":   {object: secret(system, "muster-console-sessions", corev1.SecretTypeOpaque), says: others},
		"the console's endpoint":     {object: endpoint(system, "muster-console")},
		"another endpoint":           {object: endpoint(system, "muster-gateway"), says: others},
		"an endpoint elsewhere":      {object: endpoint("free", "muster-console"), says: others},
		"certificates of the door":   {object: configMap(system, "muster-door")},
		"forecasts":                  {object: configMap(system, "muster-forecasts")},
		"another configmap":          {object: configMap(system, "a"), says: others},
		"a configmap of others":      {object: configMap("free", "muster-door"), says: others},
		"addresses of a gang":        {object: owned("Placement", configMap("free", "a"))},
		"addresses in kube-system":   {object: owned("Placement", configMap("kube-system", "a")), says: others},
		"the leader's lease":         {object: lease(system, "muster-manager")},
		"the scheduler's lease":      {object: lease(system, "muster-scheduler-epoch")},
		"another lease":              {object: lease(system, "a"), says: others},
		"a leader's lease elsewhere": {object: lease("kube-system", "muster-manager"), says: others},
		"a placeholder":              {object: placeholder(func(*corev1.Pod) {})},
		"a placeholder with a Secret": {object: placeholder(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "muster-s3"}}}}
		}), says: hull},
		"a placeholder with a variable": {object: placeholder(func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "muster-s3"}, Key: "k"}}}}
		}), says: hull},
		"a placeholder with variables": {object: placeholder(func(p *corev1.Pod) {
			p.Spec.InitContainers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "muster-s3"}}}}
		}), says: hull},
		"a placeholder with a token": {object: placeholder(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }), says: hull},
		"a service":                  {object: owned("TrainingJob", service("free"))},
		"a service without an owner": {object: service("free"), says: others},
		"a service in kube-system":   {object: owned("TrainingJob", service("kube-system")), says: others},
		"a job":                      {object: owned("PipelineRun", made(t, "TrainingJob", plainTemplate, "", ""))},
		"a job that is tried":        {object: made(t, "TrainingJob", plainTemplate, "", "")},
		"a member with a machine's folder": {object: owned("Gang", inNamespace("free", pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}))), says: isVolume},
	} {
		t.Run(name, func(t *testing.T) {
			c.as, c.groups = managerAccount, []string{"system:masters"}
			c.try(t, server)
		})
	}
	t.Run("a job without an owner", func(t *testing.T) {
		judge(t, as(t, server, managerAccount, "system:masters").Create(t.Context(), made(t, "TrainingJob", plainTemplate, "", "")), others)
	})
	t.Run("deletes a pod of others", func(t *testing.T) {
		p := inNamespace("free", pod())
		p.SetName("others")
		if err := server.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		judge(t, as(t, server, managerAccount, "system:masters").Delete(t.Context(), p, client.DryRunAll), others)
	})
}

// administrator tries requests that the role muster-admin allows, and others.
func administrator(t *testing.T, server *rehearsal.Server) {
	patch := func(o client.Object, text string) error {
		return as(t, server, boss).Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	namespace := func(name string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	judge(t, patch(namespace(v1alpha1.SystemNamespace), `{"metadata":{"annotations":{"muster.dev/paused":"x"}}}`), "")
	judge(t, patch(namespace("lab"), `{"metadata":{"labels":{"muster.dev/pod-security":"privileged"}}}`), "cannot patch resource")
	judge(t, patch(namespace("kube-system"), `{"metadata":{"labels":{"a":"b"}}}`), "cannot patch resource")
	job := made(t, "TrainingJob", container("", ", serviceAccountName: helper, volumes: [{name: s, secret: {secretName: s}}]"), "", "")
	if err := as(t, server, bob).Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	judge(t, patch(job.DeepCopy(), `{"spec":{"suspend":true}}`), "")
	judge(t, patch(job.DeepCopy(), `{"spec":{"queue":"other"}}`), "")
	judge(t, as(t, server, boss).Delete(t.Context(), job), "")
}
