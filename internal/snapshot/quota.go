package snapshot

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// quotasOf turns the quotas of all namespaces into the core's. What is used of
// them is what the API server has counted, or the pods that are there, if these
// are more already; and the members of live placements that have no pod yet.
// Neither cache is ahead of the other for certain: of two that lag, the sum is
// never too small.
func (w world) quotasOf(s *scheduling.Snapshot, gangs map[types.UID]*v1alpha1.Gang, members map[memberOf]*corev1.Pod) []scheduling.Quota {
	if len(w.quotas) == 0 {
		return nil
	}
	in := map[string]bool{}
	for i := range w.quotas {
		in[w.quotas[i].Namespace] = true
	}
	c := census{alive: map[string][]scheduling.Role{}, ended: map[string][]scheduling.Role{}, coming: map[string][]scheduling.Role{}, claims: map[string][]*resourcev1.ResourceClaim{}, unclaimed: map[string][]scheduling.Role{}, byClaims: w.byClaims}
	claimed := map[types.UID]bool{}
	for _, claim := range w.given {
		claimed[allocation.Owner(claim)] = true
		c.claims[claim.Namespace] = append(c.claims[claim.Namespace], claim)
	}
	for i := range w.pods {
		p := &w.pods[i]
		switch {
		case !in[p.Namespace]:
		case conversion.Ended(p):
			c.ended[p.Namespace] = append(c.ended[p.Namespace], w.counted(p))
		default:
			c.alive[p.Namespace] = append(c.alive[p.Namespace], w.counted(p))
			if conversion.GangOf(p) == "" && namedGPUs(conversion.Words(p.Annotations[v1alpha1.AnnotationGPUs])) && !claimed[p.UID] {
				c.unclaimed[p.Namespace] = append(c.unclaimed[p.Namespace], w.counted(p))
			}
		}
	}
	for i := range s.Placements {
		p := &s.Placements[i]
		g := gangs[types.UID(p.UID)]
		if !in[p.Gang.Namespace] || over(g, p.Attempt) {
			continue
		}
		for k := range p.Members {
			m := &p.Members[k]
			pod := members[memberOf{types.UID(p.UID), m.Role, fmt.Sprint(m.Index)}]
			if !m.Released && (pod == nil || conversion.Ended(pod)) {
				c.coming[p.Gang.Namespace] = append(c.coming[p.Gang.Namespace], w.roleNamed(g, m.Role))
			}
			if !m.Released && namedGPUs(m.GPUs) && (pod == nil || conversion.Ended(pod) || !claimed[pod.UID]) {
				c.unclaimed[p.Gang.Namespace] = append(c.unclaimed[p.Gang.Namespace], w.roleNamed(g, m.Role))
			}
		}
	}
	var out []scheduling.Quota
	for i := range w.quotas {
		if q, understood := c.quota(&w.quotas[i]); understood {
			out = append(out, q)
		}
	}
	return out
}

// census are the pods and claims that count, pods as roles, by namespace.
type census struct {
	alive, ended, coming map[string][]scheduling.Role
	// claims are those that are there, and unclaimed the members and pods that have none
	// yet; byClaims is true where drivers give GPUs.
	claims    map[string][]*resourcev1.ResourceClaim
	unclaimed map[string][]scheduling.Role
	byClaims  bool
}

// namedGPUs reports whether GPUs have names that a driver gave them: they are given by claims.
func namedGPUs(gpus []string) bool {
	return len(gpus) > 0 && !strings.HasPrefix(gpus[0], v1alpha1.CountedGPU)
}

// quota turns one quota into the core's. It is false if its scopes are not
// understood: the API server alone can then say what it counts.
func (c census) quota(q *corev1.ResourceQuota) (scheduling.Quota, bool) {
	out := scheduling.Quota{Key: scheduling.Key{Namespace: q.Namespace, Name: q.Name}}
	var understood bool
	if out.Scopes, understood = scopes(&q.Spec); !understood {
		return out, false
	}
	for _, name := range sortedNames(q.Spec.Hard) {
		if ofClaims := c.byClaims && allocation.Counts(name); !counts(name) && !ofClaims {
			continue
		}
		hard, known := q.Status.Hard[name]
		used, counted := q.Status.Used[name]
		t := scheduling.QuotaTerm{Resource: string(name), Hard: amount(name, hard), Used: amount(name, used)}
		t.Uncounted = !known || !counted
		if !known {
			t.Hard = amount(name, q.Spec.Hard[name])
		}
		sum := func(roles []scheduling.Role) (n int64) {
			for i := range roles {
				n += out.Of(&roles[i], t.Resource)
			}
			return n
		}
		there := sum(c.alive[q.Namespace])
		if name == "count/pods" {
			there += sum(c.ended[q.Namespace])
		}
		coming := c.coming[q.Namespace]
		if allocation.Counts(name) {
			there, coming = allocation.Usage(c.claims[q.Namespace], name), c.unclaimed[q.Namespace]
		}
		t.Used = max(t.Used, there) + sum(coming)
		out.Terms = append(out.Terms, t)
	}
	return out, len(out.Terms) > 0
}

// counts reports whether pods count for a resource of a quota.
func counts(name corev1.ResourceName) bool {
	text := string(name)
	if allocation.Counts(name) {
		return false // claims do
	}
	switch name {
	case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "count/pods":
		return true
	case corev1.ResourceRequestsStorage:
		return false // of claims
	}
	for _, prefix := range []string{"requests.", "limits.", "hugepages-"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// amount is a quantity in the core's unit.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if text := string(name); text == "cpu" || strings.HasSuffix(text, ".cpu") {
		return q.MilliValue()
	}
	return q.Value()
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// scopes are the conditions of a quota; false if one is not understood.
func scopes(spec *corev1.ResourceQuotaSpec) ([]scheduling.QuotaScope, bool) {
	var out []scheduling.QuotaScope
	for _, s := range spec.Scopes {
		out = append(out, scheduling.QuotaScope{Kind: scheduling.ScopeKind(s)})
	}
	if spec.ScopeSelector != nil {
		for _, e := range spec.ScopeSelector.MatchExpressions {
			out = append(out, scheduling.QuotaScope{Kind: scheduling.ScopeKind(e.ScopeName), Operator: string(e.Operator), Values: e.Values})
		}
	}
	for _, s := range out {
		switch s.Kind {
		case scheduling.ScopeTerminating, scheduling.ScopeNotTerminating, scheduling.ScopeBestEffort,
			scheduling.ScopeNotBestEffort, scheduling.ScopePriorityClass:
		default:
			return nil, false
		}
	}
	return out, true
}

// roleNamed is a role of a gang as the API server makes its pods, or as it is
// written while that is not known.
func (w world) roleNamed(g *v1alpha1.Gang, name string) scheduling.Role {
	known, _ := w.learn(g)
	for _, r := range known.Roles {
		if r.Name == name {
			return r
		}
	}
	for i := range g.Spec.Roles {
		if r := &g.Spec.Roles[i]; r.Name == name {
			return w.gpus.GangRole(r, &w.gpus.Sample(g, r).Spec)
		}
	}
	return scheduling.Role{}
}

// over reports that an attempt of a gang makes no more pods.
func over(g *v1alpha1.Gang, attempt int32) bool {
	return g == nil || g.DeletionTimestamp != nil || g.Status.Outcome != "" ||
		(g.Status.Phase == v1alpha1.GangDraining && g.Status.Attempt >= attempt)
}

// headcount remembers the pods of namespaces with quotas as roles: what quotas
// count of a pod stays what it was made with.
type headcount struct {
	gpus        conversion.GPUResources
	known, next map[types.UID]scheduling.Role
}

// begin starts a pass: what the last one did not ask for is forgotten.
func (h *headcount) begin() { h.known, h.next = h.next, map[types.UID]scheduling.Role{} }

// role is a pod as a role.
func (h *headcount) role(p *corev1.Pod) scheduling.Role {
	r, ok := h.known[p.UID]
	if !ok {
		r = h.gpus.PodRole(p)
	}
	h.next[p.UID] = r
	return r
}
