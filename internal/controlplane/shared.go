package controlplane

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane/pki"
	"github.com/muster-dev/muster/internal/installation"
)

// Sharing makes a control plane one for several users of the machine.
type Sharing struct {
	// Version is that of Muster. A label of the rules says it.
	Version string
	// Administrators are Unix groups whose members run Muster, beside root: they have the
	// role muster-admin. Nil: [DefaultAdministrators]. Empty: none.
	Administrators []string
}

// DefaultAdministrators is the group of administrators unless the configuration says
// otherwise. A machine without this group has no administrator but root.
const DefaultAdministrators = "muster-admin"

// administrators are the groups that count.
func (s Sharing) administrators() []string {
	if s.Administrators == nil {
		return []string{DefaultAdministrators}
	}
	return s.Administrators
}

// unmountable are the places that no pod of a user mounts by hostPath: devices and
// processes of others, and the data folder. Below /run are sockets of servers; links
// such as /var/run lead there.
func unmountable(dataDir string) []string {
	return []string{"/proc", "/sys", "/dev", "/run", "/var/run", dataDir}
}

// ruleKinds are the kinds of the rules of a shared machine, in the order in which they are
// applied: a policy counts once its binding is there.
var ruleKinds = []schema.GroupVersionKind{
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "PriorityLevelConfiguration"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "FlowSchema"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
}

// ruleSelector selects the rules. Objects of users have only the first label.
const ruleSelector = "app.kubernetes.io/part-of=muster,app.kubernetes.io/managed-by=muster"

// ruleLast begins the names of the rules that are applied last: once they count, all do.
const ruleLast = "muster-machine-"

// rules are the roles and policies that a control plane is to have; none where it has one
// user.
func (c *ControlPlane) rules() ([]manifest, error) {
	if c.options.Shared == nil {
		return nil, nil
	}
	objects, err := installation.RenderShared(installation.Sharing{
		Version: c.options.Shared.Version, Manager: pki.ManagerUser, Node: pki.NodeUser,
		Administrators: c.options.Shared.administrators(), Refused: unmountable(c.options.DataDir),
	})
	if err != nil {
		return nil, err
	}
	var all []manifest
	for _, o := range objects {
		m, err := ruleManifest(o)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func ruleManifest(o *unstructured.Unstructured) (manifest, error) {
	if !slices.Contains(ruleKinds, o.GroupVersionKind()) {
		return manifest{}, fmt.Errorf("a rule of kind %s is not expected here", o.GetKind())
	}
	encoded, err := o.MarshalJSON()
	if err != nil {
		return manifest{}, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	sum := sha256.Sum256(encoded)
	m := manifest{object: o, resource: ruleResource(o.GroupVersionKind()), hash: hex.EncodeToString(sum[:8])}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationManifest] = m.hash
	o.SetAnnotations(annotations)
	return m, nil
}

// ruleResource is the resource of a kind of rules.
func ruleResource(kind schema.GroupVersionKind) schema.GroupVersionResource {
	name := strings.ToLower(kind.Kind)
	if stem, okay := strings.CutSuffix(name, "y"); okay {
		return kind.GroupVersion().WithResource(stem + "ies")
	}
	return kind.GroupVersion().WithResource(name + "s")
}

// govern makes the rules be what this version has, and removes those of earlier versions.
//
//  1. Read what is there.
//  2. Apply what differs, kind by kind, those of [ruleLast] last.
//  3. Remove what is no longer a rule.
//  4. Wait until the API server goes by the rules.
func (c *ControlPlane) govern(ctx context.Context, config *rest.Config, client dynamic.Interface) error {
	wanted, err := c.rules()
	if err != nil {
		return err
	}
	there, err := readRules(ctx, client)
	if err != nil {
		return err
	}
	changed, stale := compareRules(wanted, there)
	for _, last := range []bool{false, true} {
		for _, kind := range ruleKinds {
			if err := installAll(ctx, client, changed, func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind() == kind && strings.HasPrefix(o.GetName(), ruleLast) == last
			}); err != nil {
				return err
			}
		}
	}
	for _, o := range stale {
		if err := removeRule(ctx, client, o); err != nil {
			return err
		}
	}
	if c.options.Shared == nil {
		return nil
	}
	return c.awaitRules(ctx, config)
}

func installAll(ctx context.Context, client dynamic.Interface, manifests []manifest, which func(*unstructured.Unstructured) bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range manifests {
		if which(m.object) {
			group.Go(func() error { return install(ctx, client, m) })
		}
	}
	return group.Wait()
}

// readRules returns the rules that are there, of any version.
func readRules(ctx context.Context, client dynamic.Interface) ([]*unstructured.Unstructured, error) {
	group, ctx := errgroup.WithContext(ctx)
	lists := make([][]*unstructured.Unstructured, len(ruleKinds))
	for i, kind := range ruleKinds {
		group.Go(func() error {
			return retry(ctx, "reading the rules of kind "+kind.Kind, func(ctx context.Context) error {
				list, err := client.Resource(ruleResource(kind)).List(ctx, metav1.ListOptions{LabelSelector: ruleSelector})
				if err != nil && kind.Group == "flowcontrol.apiserver.k8s.io" && apierrors.IsNotFound(err) {
					return nil // not served without several users
				}
				if err != nil {
					return err
				}
				lists[i] = nil
				for k := range list.Items {
					list.Items[k].SetGroupVersionKind(kind)
					lists[i] = append(lists[i], &list.Items[k])
				}
				return nil
			})
		})
	}
	err := group.Wait()
	return slices.Concat(lists...), err
}

// compareRules returns the rules that are to be applied, and those that are there and are
// no longer rules. An object without the annotation of this package is not its own.
func compareRules(wanted []manifest, there []*unstructured.Unstructured) (changed []manifest, stale []*unstructured.Unstructured) {
	type key struct{ kind, namespace, name string }
	of := func(o *unstructured.Unstructured) key { return key{o.GetKind(), o.GetNamespace(), o.GetName()} }
	had := map[key]string{}
	for _, o := range there {
		had[of(o)] = o.GetAnnotations()[annotationManifest]
	}
	is := map[key]bool{}
	for _, m := range wanted {
		is[of(m.object)] = true
		if had[of(m.object)] != m.hash {
			changed = append(changed, m)
		}
	}
	for _, o := range there {
		if !is[of(o)] && had[of(o)] != "" {
			stale = append(stale, o)
		}
	}
	return changed, stale
}

func removeRule(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	objects := dynamic.ResourceInterface(client.Resource(ruleResource(o.GroupVersionKind())))
	if namespace := o.GetNamespace(); namespace != "" {
		objects = client.Resource(ruleResource(o.GroupVersionKind())).Namespace(namespace)
	}
	uid := o.GetUID()
	err := objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing %s %s of an earlier version: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// noUser is in the answer of the policy muster-machine-jobs to a job in the namespace of
// no user, once the policies count and a job has its submitter.
const noUser = "is the namespace of no user"

// awaitRules waits until the API server goes by the rules: it learns of them a second
// after they are stored, and of the schema of jobs some seconds after its start.
func (c *ControlPlane) awaitRules(ctx context.Context, config *rest.Config) error {
	admin, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	job := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "probe"},
		"spec":     map[string]any{"roles": []any{map[string]any{"name": "worker", "command": []any{"true"}}}},
	}}
	job.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TrainingJob"))
	// A full disk refuses no object of kube-system.
	const namespace = metav1.NamespaceSystem
	jobs := admin.Resource(v1alpha1.GroupVersion.WithResource("trainingjobs")).Namespace(namespace)
	err = retry(ctx, "waiting for the policies of users", func(ctx context.Context) error {
		_, err := jobs.Create(ctx, job.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return fmt.Errorf("a job in the namespace %s is allowed", namespace)
		}
		if strings.Contains(err.Error(), noUser) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, part := range []struct {
		config *rest.Config
		may    authorizationv1.ResourceAttributes
	}{
		{c.manager, authorizationv1.ResourceAttributes{Verb: "create", Resource: "persistentvolumes"}},
		{c.nodePart, authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes"}},
	} {
		if err := awaitRight(ctx, part.config, part.may); err != nil {
			return err
		}
	}
	return nil
}

// awaitRight waits until a client has a right.
func awaitRight(ctx context.Context, config *rest.Config, may authorizationv1.ResourceAttributes) error {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return retry(ctx, "waiting for the rights of Muster's own parts", func(ctx context.Context) error {
		review, err := set.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &may},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("%s of %s is not allowed yet", may.Verb, may.Resource)
		}
		return err
	})
}

// ManagerConfig is the way of Muster's controllers to the API server. Where the control
// plane has one user, it is the administrator's. The caller owns the copy.
func (c *ControlPlane) ManagerConfig() *rest.Config { return rest.CopyConfig(c.manager) }

// NodeConfig is the way of the node to the API server, as [ControlPlane.ManagerConfig].
func (c *ControlPlane) NodeConfig() *rest.Config { return rest.CopyConfig(c.nodePart) }

// FrontProxy returns the address of the API server and the TLS configuration by which it
// trusts a front proxy. It is an error where the control plane has one user.
func (c *ControlPlane) FrontProxy() (*url.URL, *tls.Config, error) {
	if c.options.Shared == nil {
		return nil, nil, errNotShared
	}
	server, err := url.Parse(c.admin.Host)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the server's address: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(c.set.CertFile(pki.FrontProxy), c.set.KeyFile(pki.FrontProxy))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate of the front proxy: %w", err)
	}
	pool, err := c.set.CAPool()
	if err != nil {
		return nil, nil, err
	}
	return server, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, RootCAs: pool}, nil
}

// Signer signs short certificates of users. It is an error where the control plane has one
// user.
func (c *ControlPlane) Signer() (*pki.Signer, error) {
	if c.options.Shared == nil {
		return nil, errNotShared
	}
	return c.set.Signer()
}

// auditPolicy records who among root and the administrators changes something, reaches
// into a pod, or reads its output or a Secret: names, and no contents.
func auditPolicy(groups []string) map[string]any {
	who := []map[string]any{{"users": []string{"unix:0", pki.AdminUser}}}
	if len(groups) > 0 {
		named := make([]string, 0, len(groups))
		for _, group := range groups {
			named = append(named, "unix-group:"+group)
		}
		who = append(who, map[string]any{"userGroups": named})
	}
	var rules []map[string]any
	for _, subject := range who {
		write := map[string]any{"level": "Metadata", "verbs": []string{"create", "update", "patch", "delete", "deletecollection"}}
		reach := map[string]any{"level": "Metadata", "verbs": []string{"get", "list", "watch"}, "resources": []map[string]any{{
			"group": "", "resources": []string{"secrets", "pods/log", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"},
		}}}
		for _, rule := range []map[string]any{write, reach} {
			for key, value := range subject {
				rule[key] = value
			}
			rules = append(rules, rule)
		}
	}
	return map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": append(rules, map[string]any{"level": "None"}),
	}
}

func (o Options) auditPolicy() string { return filepath.Join(o.DataDir, "pki", "audit.yaml") }

// AuditLog is the path of the record of what root and the administrators did, in JSON, one
// event a line. It does not exist where the control plane has one user.
func (c *ControlPlane) AuditLog() string { return c.order.AuditLog }
