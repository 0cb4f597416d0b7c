//go:build embedded

package install_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// The people of these tests.
const (
	ada            = "ada@example.com" // has the role edit, and queue vision, in namespace team
	managerAccount = "system:serviceaccount:muster-system:muster-manager"
)

// policyCase is something that somebody does, and the answer.
type policyCase struct {
	as     string
	groups []string
	object client.Object
	// change is done to the object, which an administrator made before.
	change func(client.Object)
	// says is part of the refusal; empty: it is allowed.
	says string
}

// TestPolicies tries what each policy refuses, and what is like it and allowed.
func TestPolicies(t *testing.T) {
	server := rehearsal.StartCluster(t)
	server.Run(t, []rehearsal.Step{{Args: "install --no-wait --set manager.replicas=0 --set agent.create=true", Says: "is applied"}})
	furnish(t, server)
	for name, cases := range map[string]map[string]policyCase{
		"owned nodes": ownedNodes(), "submitter": submitters(), "queues": queueUsers(), "journal": journal(),
		"TFJobs": foreignJobs(kubeflowv1.KindTFJob), "PyTorchJobs": foreignJobs(kubeflowv1.KindPyTorchJob),
	} {
		t.Run(name, func(t *testing.T) {
			for name, c := range cases {
				t.Run(name, func(t *testing.T) { c.try(t, server) })
			}
		})
	}
	for _, kind := range []string{kubeflowv1.KindTFJob, kubeflowv1.KindPyTorchJob} {
		t.Run("stamps of a "+kind, func(t *testing.T) { foreignStamps(t, server, kind) })
	}
	t.Run("agents", func(t *testing.T) { agents(t, server) })
	t.Run("tokens for the door", func(t *testing.T) { doorTokens(t, server) })
	t.Run("without stamps", func(t *testing.T) { withoutStamps(t, server) })
}

// doorTokens asks for tokens that say who asked for them: only the truth is had.
func doorTokens(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: v1alpha1.DoorAccount}}
	if err := server.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		audiences []string
		says      string
	}{
		"one's own name":     {[]string{v1alpha1.DoorAudience, v1alpha1.DoorUser + ada}, ""},
		"no name":            {[]string{v1alpha1.DoorAudience}, ""},
		"another's name":     {[]string{v1alpha1.DoorAudience, v1alpha1.DoorUser + "eve@example.com"}, "and you are ada@example.com"},
		"one's own group":    {[]string{v1alpha1.DoorUser + ada, v1alpha1.DoorGroup + "system:authenticated"}, ""},
		"another group":      {[]string{v1alpha1.DoorUser + ada, v1alpha1.DoorGroup + "system:authenticated", v1alpha1.DoorGroup + "system:masters"}, "leave the audiences out"},
		"another's name too": {[]string{v1alpha1.DoorUser + ada, v1alpha1.DoorUser + "eve@example.com"}, "and you are ada@example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: c.audiences}}
			judge(t, as(t, server, ada).SubResource("token").Create(t.Context(), account, request), c.says)
		})
	}
}

// withoutStamps takes the stamps away, as servers before 1.36 are, and tries
// what holds then.
func withoutStamps(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("admissionregistration.k8s.io/v1")
	binding.SetKind("MutatingAdmissionPolicyBinding")
	binding.SetName("muster-submitter")
	if err := server.Client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	rehearsal.Eventually(t, "nothing is stamped", func(context.Context) bool {
		unstamped := job("vision", nil)
		return policyCase{as: ada, object: unstamped}.attempt(t, server) == nil && unstamped.Annotations[v1alpha1.AnnotationSubmitter] == ""
	})
	named := func(who, authenticated string) *v1alpha1.TrainingJob {
		annotations := map[string]string{v1alpha1.AnnotationSubmitter: who}
		if authenticated != "" {
			annotations[v1alpha1.AnnotationAuthenticated] = authenticated
		}
		return job("vision", annotations)
	}
	tfJob := func(who string) *unstructured.Unstructured {
		o := foreign(kubeflowv1.KindTFJob, map[string]string{kubeflowv1.LabelQueue: "vision"}, "")
		if who != "" {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationSubmitter: who, v1alpha1.AnnotationAuthenticated: "true"})
		}
		return o
	}
	for name, c := range map[string]policyCase{
		"a TFJob's, no name":               {as: ada, object: tfJob("")},
		"a TFJob's, one's own name":        {as: ada, object: tfJob(ada)},
		"a TFJob's, another's name":        {as: ada, object: tfJob("eve@example.com"), says: "says eve@example.com, and you are ada@example.com"},
		"no name":                          {as: ada, object: job("vision", nil)},
		"one's own name":                   {as: ada, object: named(ada, "true")},
		"one's own name, not marked":       {as: ada, object: named(ada, ""), says: "and you are ada@example.com"},
		"another's name":                   {as: ada, object: named("eve@example.com", "true"), says: "says eve@example.com, and you are ada@example.com"},
		"another's name, not marked":       {as: ada, object: named("eve", ""), says: "and you are ada@example.com"},
		"an administrator is held, too":    {object: named("eve@example.com", "true"), says: "and you are muster-admin"},
		"another's name written by Muster": {as: managerAccount, groups: []string{"system:masters"}, object: madeFor(named("eve@example.com", "true"))},
	} {
		t.Run(name, func(t *testing.T) { c.try(t, server) })
	}
}

// madeFor is a job as the manager makes it for a run.
func madeFor(job *v1alpha1.TrainingJob) *v1alpha1.TrainingJob {
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "muster.dev/v1alpha1", Kind: "PipelineRun", Name: "r", UID: "1"}}
	return job
}

// furnish makes the namespace of a tenant, and waits until policies hold.
func furnish(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	ctx := t.Context()
	subject := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: ada}}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "queued", Annotations: map[string]string{"muster.dev/queue": "vision"}}},
		&corev1.ServiceAccount{ObjectMeta: named("other")},
		&rbacv1.RoleBinding{ObjectMeta: named("edit"), Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}},
		&rbacv1.Role{ObjectMeta: named("vision"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{"muster.dev"}, Resources: []string{"queues"}, ResourceNames: []string{"vision"}, Verbs: []string{"use"}}}},
		&rbacv1.RoleBinding{ObjectMeta: named("vision"), Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "vision"}},
		// Rights as somebody might give them by mistake: the policy holds all the same.
		&rbacv1.Role{ObjectMeta: named("loose"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"muster.dev"}, Resources: []string{"gangs", "placements"}, Verbs: []string{"create", "update", "patch", "delete"}},
			{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"create", "update", "delete"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: named("loose"), Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "loose"}},
	} {
		if err := server.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	// The controller that puts Muster's rights into `edit`, and the caches of
	// policies, take a moment.
	denied := policyCase{as: ada, object: job("default", nil)}
	rehearsal.Eventually(t, "policies hold", func(context.Context) bool {
		err := denied.attempt(t, server)
		return err != nil && strings.Contains(err.Error(), "may not use queue default")
	})
	for _, c := range []policyCase{{object: pod(tolerating("muster.dev/owned"))}, {object: pod(annotated("muster.dev/gpus"))}} {
		rehearsal.Eventually(t, "policies hold", func(context.Context) bool { return c.attempt(t, server) != nil })
	}
	// A kind that was just made is known to what matches it with policies a moment
	// later than it is served.
	for _, kind := range []string{kubeflowv1.KindTFJob, kubeflowv1.KindPyTorchJob} {
		rehearsal.Eventually(t, kind+"s are known to policies", func(context.Context) bool {
			err := policyCase{object: foreign(kind, map[string]string{kubeflowv1.LabelQueue: "vision"}, "")}.attempt(t, server)
			return err == nil || !strings.Contains(err.Error(), "There can be a delay")
		})
	}
	stamped := job("vision", nil)
	rehearsal.Eventually(t, "stamps are put", func(context.Context) bool {
		return policyCase{as: ada, object: stamped}.attempt(t, server) == nil && stamped.Annotations[v1alpha1.AnnotationSubmitter] == ada
	})
}

// as is a client that is somebody else.
func as(t *testing.T, server *rehearsal.Server, user string, groups ...string) client.Client {
	t.Helper()
	if user == "" {
		return server.Client
	}
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: server.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// attempt does it, as a dry run, and returns what the server says.
func (c policyCase) attempt(t *testing.T, server *rehearsal.Server) error {
	t.Helper()
	ctx := t.Context()
	c.object.SetResourceVersion("")
	if c.change == nil {
		return as(t, server, c.as, c.groups...).Create(ctx, c.object, client.DryRunAll)
	}
	if err := server.Client.Create(ctx, c.object); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Client.Delete(context.WithoutCancel(ctx), c.object, client.GracePeriodSeconds(0)) }()
	after := c.object.DeepCopyObject().(client.Object)
	c.change(after)
	return as(t, server, c.as, c.groups...).Patch(ctx, after, client.MergeFrom(c.object), client.DryRunAll)
}

func (c policyCase) try(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	err := c.attempt(t, server)
	switch {
	case c.says == "" && err != nil:
		t.Errorf("refused: %v", err)
	case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
		t.Errorf("error %v, want one with %q", err, c.says)
	}
}

func pod(options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
		Spec:       corev1.PodSpec{ServiceAccountName: "other", Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

func tolerating(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func annotated(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: "x"} }
}

func owned(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "muster.dev/v1alpha1", Kind: "Gang", Name: "a", UID: "1"}}
}

func withGPU(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("1")}
}

func placed(p *corev1.Pod) { p.Spec.NodeName = "one" }

func ours(p *corev1.Pod) { p.Spec.SchedulerName = v1alpha1.SchedulerName }

func ofDaemonSet(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "plugin", UID: "1", Controller: &yes}}
}

func ownedNodes() map[string]policyCase {
	const daemons = "system:serviceaccount:kube-system:daemon-set-controller"
	daemonSet := func(options ...func(*corev1.Pod)) *appsv1.DaemonSet {
		labels := map[string]string{"app": "x"}
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(options...).Spec},
			},
		}
	}
	return map[string]policyCase{
		"an ordinary pod":                  {as: ada, object: pod()},
		"a pod with a GPU elsewhere":       {as: ada, object: pod(withGPU)},
		"another taint":                    {as: ada, object: pod(tolerating("nvidia.com/gpu"), withGPU)},
		"every taint, no GPU":              {as: ada, object: pod(tolerating(""))},
		"the taint":                        {as: ada, object: pod(tolerating("muster.dev/owned")), says: "set spec.schedulerName to muster"},
		"the taint, by an administrator":   {object: pod(tolerating("muster.dev/owned")), says: "set spec.schedulerName to muster"},
		"every taint and a GPU":            {as: ada, object: pod(tolerating(""), withGPU), says: "tolerates every taint"},
		"the taint, for our scheduler":     {as: ada, object: pod(tolerating("muster.dev/owned"), withGPU, ours)},
		"a node and a GPU":                 {as: ada, object: pod(placed, withGPU), says: "leave out spec.nodeName"},
		"a node and a GPU under our name":  {as: ada, object: pod(placed, withGPU, ours), says: "leave out spec.nodeName"},
		"a node without a GPU":             {as: ada, object: pod(placed)},
		"a node and a GPU, by Muster":      {as: managerAccount, groups: []string{"system:masters"}, object: pod(placed, withGPU, ours, owned)},
		"a DaemonSet's, by its controller": {as: daemons, groups: []string{"system:masters"}, object: pod(tolerating("muster.dev/owned"), withGPU, ofDaemonSet)},
		"a DaemonSet's, by somebody":       {as: ada, object: pod(tolerating("muster.dev/owned"), ofDaemonSet), says: "set spec.schedulerName to muster"},
		"the taint afterwards":             {as: ada, object: pod(), change: func(o client.Object) { tolerating("muster.dev/owned")(o.(*corev1.Pod)) }, says: "set spec.schedulerName to muster"},
		"a label afterwards":               {as: ada, object: pod(ours, tolerating("muster.dev/owned")), change: func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }},
		"a tenant's DaemonSet":             {as: ada, object: daemonSet(tolerating("muster.dev/owned")), says: "only who may administer Muster"},
		"a tenant's greedy DaemonSet":      {as: ada, object: daemonSet(tolerating(""), withGPU), says: "only who may administer Muster"},
		"a tenant's modest DaemonSet":      {as: ada, object: daemonSet()},
		"an administrator's DaemonSet":     {object: daemonSet(tolerating("muster.dev/owned"), withGPU)},
	}
}

// job is a TrainingJob in a queue, with annotations.
func job(queue string, annotations map[string]string) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", Annotations: annotations},
		Spec:       v1alpha1.TrainingJobSpec{Queue: queue, Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}}}},
	}
}

func submitters() map[string]policyCase {
	eve := map[string]string{v1alpha1.AnnotationSubmitter: "eve@example.com", v1alpha1.AnnotationAuthenticated: "true"}
	change := func(annotations map[string]string) func(client.Object) {
		return func(o client.Object) {
			all := maps.Clone(o.GetAnnotations())
			if all == nil {
				all = map[string]string{}
			}
			maps.Copy(all, annotations)
			o.SetAnnotations(all)
		}
	}
	return map[string]policyCase{
		"another's name is overwritten":   {as: ada, object: job("vision", eve)},
		"another's name afterwards":       {as: ada, object: job("vision", nil), change: change(eve), says: "cannot be changed"},
		"the name taken away":             {as: ada, object: job("vision", nil), change: func(o client.Object) { o.SetAnnotations(nil) }, says: "cannot be changed"},
		"any other annotation afterwards": {as: ada, object: job("vision", nil), change: change(map[string]string{"a": "b"})},
	}
}

func queueUsers() map[string]policyCase {
	elsewhere := job("vision", nil)
	elsewhere.Namespace = "queued"
	unnamed := job("", nil)
	unnamed.Namespace = "queued"
	return map[string]policyCase{
		"one's own":                        {as: ada, object: job("vision", nil)},
		"another's":                        {as: ada, object: job("nlp", nil), says: "you (ada@example.com) may not use queue nlp in namespace team"},
		"none, which is default":           {as: ada, object: job("", nil), says: "may not use queue default"},
		"one's own, moved to another's":    {as: ada, object: job("vision", nil), change: func(o client.Object) { o.(*v1alpha1.TrainingJob).Spec.Queue = "nlp" }, says: "may not use queue nlp"},
		"another's, otherwise changed":     {as: ada, object: job("nlp", nil), change: func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }},
		"an administrator":                 {object: job("nlp", nil)},
		"an administrator in a namespace":  {object: elsewhere},
		"none where the namespace has one": {object: unnamed},
	}
}

func journal() map[string]policyCase {
	g := func() *v1alpha1.Gang {
		return &v1alpha1.Gang{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
			Spec:       v1alpha1.GangSpec{Roles: []v1alpha1.GangRole{{Name: "worker", Replicas: 1}}, DoneWhen: []string{"worker"}},
		}
	}
	placement := &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a-1"},
		Spec:       v1alpha1.PlacementSpec{Gang: "a", GangUID: "1", Attempt: 1, Epoch: 1, Nodes: []string{"one"}, Members: []v1alpha1.PlacedMember{}},
	}
	claim := func(labels map[string]string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", Labels: labels}}
	}
	member := func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.LabelGang: "a"} }
	annotate := func(key string) func(client.Object) {
		return func(o client.Object) { o.SetAnnotations(map[string]string{key: "1 ada"}) }
	}
	return map[string]policyCase{
		"a gang":                         {as: ada, object: g(), says: "written by Muster alone"},
		"a gang, by Muster":              {as: managerAccount, groups: []string{"system:masters"}, object: g()},
		"a gang, by an administrator":    {object: g()},
		"a gang's release":               {as: ada, object: g(), change: annotate(v1alpha1.AnnotationRelease)},
		"a gang's eviction":              {as: ada, object: g(), change: annotate(v1alpha1.AnnotationEvict), says: "written by Muster alone"},
		"a gang's size":                  {as: ada, object: g(), change: func(o client.Object) { o.(*v1alpha1.Gang).Spec.Roles[0].Replicas = 9 }, says: "written by Muster alone"},
		"a gang's finalizer":             {as: ada, object: g(), change: func(o client.Object) { o.SetFinalizers([]string{"example.com/mine"}) }, says: "written by Muster alone"},
		"a placement":                    {as: ada, object: placement.DeepCopy(), says: "written by Muster alone"},
		"a placement, by Muster":         {as: managerAccount, groups: []string{"system:masters"}, object: placement.DeepCopy()},
		"a gang's claim":                 {as: ada, object: claim(map[string]string{v1alpha1.LabelGang: "a"}), says: "written by Muster alone"},
		"one's own claim":                {as: ada, object: claim(nil)},
		"a gang's claim, by Muster":      {as: managerAccount, groups: []string{"system:masters"}, object: claim(map[string]string{v1alpha1.LabelGang: "a"})},
		"GPUs written on a pod":          {as: ada, object: pod(annotated(v1alpha1.AnnotationGPUs), ours), says: "written by Muster alone"},
		"GPUs written later":             {as: ada, object: pod(ours), change: func(o client.Object) { annotated(v1alpha1.AnnotationGPUs)(o.(*corev1.Pod)) }, says: "written by Muster alone"},
		"GPUs written by Muster":         {as: managerAccount, groups: []string{"system:masters"}, object: pod(annotated(v1alpha1.AnnotationGPUs), ours, owned)},
		"a member's label on a pod":      {as: ada, object: pod(member, ours), says: "written by Muster alone"},
		"a member's label, later":        {as: ada, object: pod(ours), change: func(o client.Object) { member(o.(*corev1.Pod)) }, says: "written by Muster alone"},
		"a member's label, by Muster":    {as: managerAccount, groups: []string{"system:masters"}, object: pod(member, ours, owned)},
		"a pod's models":                 {as: ada, object: pod(annotated(v1alpha1.AnnotationGPUModels), ours)},
		"a claim becomes a gang's claim": {as: ada, object: claim(nil), change: func(o client.Object) { o.SetLabels(map[string]string{v1alpha1.LabelGang: "a"}) }, says: "written by Muster alone"},
	}
}
