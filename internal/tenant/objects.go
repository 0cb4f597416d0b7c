package tenant

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// LabelUser names, on a namespace and on what else a tenant has, the user whose
// it is.
const LabelUser = v1alpha1.LabelUser

// Tenant is a user of Muster on a cluster, or on a machine that several users share ([OfMachine]).
type Tenant struct {
	// Name is that of the user, of their namespace and of their service
	// account.
	Name string
	// Queue is the queue that they may use, and whose their jobs are unless
	// they say otherwise.
	Queue string
	// Identity is the name by which the cluster knows them already, such as an
	// address that an identity provider vouches for. Empty: they get a service
	// account.
	Identity string
	// Profile is that of a cluster, unless it says otherwise.
	Profile Profile
}

func (t Tenant) labels() map[string]string {
	return map[string]string{LabelUser: t.Name, "app.kubernetes.io/part-of": "muster"}
}

func (t Tenant) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.Name, Name: name, Labels: t.labels()}
}

// subject is whom the rights are given to.
func (t Tenant) subject() []rbacv1.Subject {
	if t.Identity != "" {
		return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: t.Identity}}
	}
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.Name, Name: t.Name}}
}

// namespace is where everything of theirs is. Pods that reach for the machine
// itself are refused in it: jobs are made into pods by Muster, which may more.
func (t Tenant) namespace() *corev1.Namespace {
	labels := t.labels()
	if t.Profile.PodSecurity == BaselinePods {
		labels["pod-security.kubernetes.io/enforce"] = "baseline"
	}
	annotations := map[string]string{v1alpha1.AnnotationQueue: t.Queue}
	if t.Profile.Identity == SocketIdentity {
		annotations[AnnotationGIDs] = t.Profile.gids()
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: labels, Annotations: annotations}}
}

// objects are what a tenant has beside the namespace and the queue.
func (t Tenant) objects() []client.Object {
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	out := []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: t.named("muster-user"), RoleRef: role("ClusterRole", "muster-user"), Subjects: t.subject()},
		&rbacv1.Role{ObjectMeta: t.named("muster-queue"), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"queues"}, ResourceNames: []string{t.Queue}, Verbs: []string{"use"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: t.named("muster-queue"), RoleRef: role("Role", "muster-queue"), Subjects: t.subject()},
		t.names(),
	}
	out = append(out, t.accounts()...)
	if t.Profile.Network == HostNetwork {
		return out
	}
	return append(out, t.network()...)
}

// podsOfAUser is the highest number of pods of one user of a machine at once, half of those of its node.
// Queues do not count pods, so jobs that ask for nothing could take all of them.
const podsOfAUser = 500

// quota bounds how many objects a tenant stores in the API server: each is in the memory of
// the server and of the manager. Beyond it the server says which kind is used up.
func (t Tenant) quota() *corev1.ResourceQuota {
	hard := corev1.ResourceList{}
	for kind, most := range map[string]int64{
		"count/trainingjobs.muster.dev": 2000, "count/pipelines.muster.dev": 200, "count/pipelineruns.muster.dev": 5000, "count/datasets.muster.dev": 1000,
		"count/tfjobs.kubeflow.org": 2000, "count/pytorchjobs.kubeflow.org": 2000,
		"count/secrets": 500, "count/configmaps": 1000, "count/persistentvolumeclaims": 2500,
	} {
		hard[corev1.ResourceName(kind)] = *resource.NewQuantity(most, resource.DecimalSI)
	}
	if t.Profile.Identity == SocketIdentity {
		hard[corev1.ResourcePods] = *resource.NewQuantity(podsOfAUser, resource.DecimalSI)
	}
	return &corev1.ResourceQuota{ObjectMeta: t.named("muster-objects"), Spec: corev1.ResourceQuotaSpec{Hard: hard}}
}

// names is the right to know which queues and priorities there are.
func (t Tenant) names() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "muster-names-" + t.Name, Labels: t.labels()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster-names"},
		Subjects:   t.subject(),
	}
}

// network closes the namespace, but for members of gangs among themselves, the
// cluster's DNS, the S3 gateway, and what builds of environments fetch. A policy cannot say "of the same gang"; within one
// tenant's namespace all gangs are one tenant's.
func (t Tenant) network() []client.Object {
	members := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.LabelGang, Operator: metav1.LabelSelectorOpExists}}}
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: &members}}
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	udp, tcp, port := corev1.ProtocolUDP, corev1.ProtocolTCP, intstr.FromInt32(53)
	system := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}}
	return []client.Object{
		&networkingv1.NetworkPolicy{ObjectMeta: t.named("muster-closed"), Spec: networkingv1.NetworkPolicySpec{PolicyTypes: both}},
		&networkingv1.NetworkPolicy{ObjectMeta: t.named("muster-gangs"), Spec: networkingv1.NetworkPolicySpec{
			PodSelector: members, PolicyTypes: both,
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}},
			Egress:  []networkingv1.NetworkPolicyEgressRule{{To: peers}},
		}},
		t.packages(),
		t.gateway(),
		&networkingv1.NetworkPolicy{ObjectMeta: t.named("muster-names"), Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To:    []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &system}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: &port}, {Protocol: &tcp, Port: &port}},
			}},
		}},
	}
}

// gateway lets pods reach the S3 gateway, where there is one: it asks everybody for a key.
func (t Tenant) gateway() client.Object {
	tcp, port := corev1.ProtocolTCP, intstr.FromString("gateway")
	system := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: v1alpha1.SystemNamespace}}
	managers := metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "manager"}}
	return &networkingv1.NetworkPolicy{ObjectMeta: t.named("muster-gateway"), Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			To:    []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &system, PodSelector: &managers}},
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}},
		}},
	}}
}

// packages lets pods by which Muster builds an environment reach the world's
// indexes of packages, by HTTPS: what lies outside of networks that are private, or
// of this link, such as the cluster's own and that of a cloud's metadata. Such pods
// run what packages bring along. Nothing but Muster gives them their label.
func (t Tenant) packages() client.Object {
	tcp, https := corev1.ProtocolTCP, intstr.FromInt32(443)
	return &networkingv1.NetworkPolicy{ObjectMeta: t.named("muster-builds"), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.LabelBuild, Operator: metav1.LabelSelectorOpExists}}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			To: []networkingv1.NetworkPolicyPeer{
				{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{
					"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
				}}},
				{IPBlock: &networkingv1.IPBlock{CIDR: "2000::/3"}},
			},
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &https}},
		}},
	}}
}
