package scheduling

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Quota is what the pods of a namespace may come to together, by the word of
// one object of the API (a ResourceQuota).
type Quota struct {
	// Key names the object; its namespace is the one that it is for.
	Key
	// Scopes must all take a pod for it to count. Empty: every pod counts.
	Scopes []QuotaScope
	// Terms are the amounts, each of another resource.
	Terms []QuotaTerm
}

// QuotaTerm is the amount of one resource that a quota allows.
type QuotaTerm struct {
	// Resource is by the name that the quota has for it: "pods", "count/pods",
	// "requests.cpu", "limits.memory", "requests.nvidia.com/gpu" and the like.
	Resource string
	// Hard is what is allowed, Used what there is of it, what is placed and has
	// no pods yet included. CPU in thousandths, memory in bytes.
	Hard, Used int64
	// Uncounted is true while the API server has not counted what is used: it
	// makes no pods until it has.
	Uncounted bool
}

// ScopeKind is which pods a quota counts.
type ScopeKind string

// The scopes that are understood, by their names in the API.
const (
	ScopeTerminating    ScopeKind = "Terminating"
	ScopeNotTerminating ScopeKind = "NotTerminating"
	ScopeBestEffort     ScopeKind = "BestEffort"
	ScopeNotBestEffort  ScopeKind = "NotBestEffort"
	ScopePriorityClass  ScopeKind = "PriorityClass"
)

// QuotaScope is one condition on the pods that a quota counts.
type QuotaScope struct {
	Kind ScopeKind
	// Operator and Values are for PriorityClass: In, NotIn, Exists or
	// DoesNotExist. Both are empty where the scope is the kind alone.
	Operator string
	Values   []string
}

// Counted is what quotas ask of a pod beside what it requests.
type Counted struct {
	// Limits are its limits of CPU, memory and ephemeral storage.
	Limits Resources
	// Terminating is true if it has a deadline, BestEffort if it neither
	// requests CPU and memory nor limits them.
	Terminating, BestEffort bool
	// PriorityClass is the name of its priority class; empty if it has none.
	PriorityClass string
}

// Takes reports whether a quota counts the members of a role.
func (q *Quota) Takes(r *Role) bool {
	return !slices.ContainsFunc(q.Scopes, func(s QuotaScope) bool { return !s.takes(&r.Counted) })
}

func (s *QuotaScope) takes(c *Counted) bool {
	switch s.Kind {
	case ScopeTerminating:
		return c.Terminating
	case ScopeNotTerminating:
		return !c.Terminating
	case ScopeBestEffort:
		return c.BestEffort
	case ScopeNotBestEffort:
		return !c.BestEffort
	case ScopePriorityClass:
		switch s.Operator {
		case "In":
			return slices.Contains(s.Values, c.PriorityClass)
		case "NotIn":
			return !slices.Contains(s.Values, c.PriorityClass)
		case "DoesNotExist":
			return c.PriorityClass == ""
		}
		return c.PriorityClass != ""
	}
	return true
}

// Of is what one member of a role counts for in a resource of a quota.
func (q *Quota) Of(r *Role, resource string) int64 {
	if !q.Takes(r) {
		return 0
	}
	switch resource {
	case "pods", "count/pods":
		return 1
	case QuotaClaims, QuotaDevices, quotaImplicit:
		return q.ofClaims(r, resource)
	}
	if name, ok := strings.CutPrefix(resource, "limits."); ok {
		return max(0, r.Counted.Limits.amount(name))
	}
	name := strings.TrimPrefix(resource, "requests.")
	switch name {
	case quotaGPU:
		return int64(r.GPUs)
	case quotaMilli:
		return r.Share.Milli
	case quotaGPUMemory:
		return r.Share.MiB << 20
	}
	return max(0, r.Resources.amount(name))
}

// The names of GPUs and of what is asked for of parts of them, as the API server
// counts them in quotas.
const (
	quotaGPU       = "nvidia.com/gpu"
	quotaMilli     = "muster.dev/gpu-milli"
	quotaGPUMemory = "muster.dev/gpu-memory"
)

// The resources by which quotas count claims of GPUs, which members have where drivers give
// GPUs: the claims, and the devices of Muster's DeviceClass that they ask for.
const (
	QuotaClass    = "gpu.muster.dev"
	QuotaClaims   = "count/resourceclaims.resource.k8s.io"
	QuotaDevices  = QuotaClass + ".deviceclass.resource.k8s.io/devices"
	quotaImplicit = "requests.deviceclass.resource.kubernetes.io/" + QuotaClass
)

// OfClaims reports whether a resource of a quota counts claims, and not pods.
func OfClaims(resource string) bool {
	return resource == QuotaClaims || resource == QuotaDevices || resource == quotaImplicit
}

// ofClaims is the usage by the claim of one member. Quotas with scopes count no claims.
func (q *Quota) ofClaims(r *Role, resource string) int64 {
	switch {
	case len(q.Scopes) > 0 || r.GPUs == 0 && !r.Share.some():
		return 0
	case resource == QuotaClaims:
		return 1
	}
	return max(1, int64(r.GPUs))
}

// need is what the members of a request that are still to run count for.
func (q *Quota) need(req *Request, resource string) int64 {
	var sum int64
	for i := range req.Roles {
		sum += members(&req.Roles[i]) * q.Of(&req.Roles[i], resource)
	}
	return sum
}

// quota is a Quota and what was planned since it was told.
type quota struct {
	Quota
	planned []int64 // by term
}

// SetQuotas replaces the quotas. What was planned before counts no more: it is
// in what they say is used.
func (c *Core) SetQuotas(quotas []Quota) {
	c.quotas = nil
	if len(quotas) == 0 {
		return
	}
	c.quotas = map[string][]*quota{}
	for _, q := range quotas {
		c.quotas[q.Namespace] = append(c.quotas[q.Namespace], &quota{Quota: q, planned: make([]int64, len(q.Terms))})
	}
	for _, list := range c.quotas {
		slices.SortFunc(list, func(a, b *quota) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// spend counts a request that was planned against the quotas of its namespace.
// A lone pod is in them since it was created; its claim is made when it is bound.
func (c *Core) spend(e *entry) {
	for _, q := range c.quotas[e.req.Namespace] {
		for i := range q.Terms {
			if e.req.Pod && !OfClaims(q.Terms[i].Resource) {
				continue
			}
			q.planned[i] += q.need(&e.req, q.Terms[i].Resource)
		}
	}
}

// overQuota says which quota an entry would break, as things are and with what
// others were told to make room for; nil if none. What no quota will ever allow
// comes first.
func (c *Core) overQuota(e *entry) Reason {
	quotas := c.quotas[e.req.Namespace]
	if len(quotas) == 0 {
		return nil
	}
	var found Reason
	for _, q := range quotas {
		for i := range q.Terms {
			t := &q.Terms[i]
			need := q.need(&e.req, t.Resource)
			if need == 0 || e.req.Pod && !OfClaims(t.Resource) {
				continue
			}
			out := OverQuota{Quota: q.Key, Resource: t.Resource, Hard: t.Hard, Used: t.Used + q.planned[i] + c.nominatedUse(q, t.Resource, e) - c.raisedUse(q, t.Resource), Asked: need, Uncounted: t.Uncounted}
			out.Kept, out.KeptFor = c.claimed(q, t.Resource, e)
			switch {
			case !t.Uncounted && need > t.Hard:
				return out
			case found == nil && (t.Uncounted || out.Used+out.Kept+need > t.Hard):
				out.Holders = c.quotaHolders(q, t.Resource)
				found = out
			}
		}
	}
	return found
}

// nominatedUse is what those count for that others were told to make room for.
func (c *Core) nominatedUse(q *quota, resource string, but *entry) int64 {
	var sum int64
	for i := range c.nominations {
		if o := c.nominations[i].entry; !o.placed && o.req.UID != but.req.UID && o.req.Namespace == q.Namespace {
			sum += q.need(&o.req, resource)
		}
	}
	return sum
}

// quotaHolders are who holds most of a resource in the namespace of a quota;
// none where that is not kept: of limits, and where only some pods count.
func (c *Core) quotaHolders(q *quota, resource string) []QueueHolder {
	if len(q.Scopes) > 0 || strings.HasPrefix(resource, "limits.") {
		return nil
	}
	var out []QueueHolder
	for _, e := range c.running {
		if e.req.Namespace != q.Namespace || e.req.claim && !OfClaims(resource) {
			continue
		}
		var sum int64
		for i := range e.held {
			h := &e.held[i]
			sum += q.Of(&Role{GPUs: int32(h.milli() / placement.Whole), Share: c.asked(e, h), Resources: h.resources}, resource)
		}
		if sum > 0 {
			out = append(out, QueueHolder{Key: e.req.Key, Pod: e.req.Pod, Amount: sum, Since: e.since})
		}
	}
	slices.SortFunc(out, func(a, b QueueHolder) int { return cmp.Or(cmp.Compare(b.Amount, a.Amount), compareKeys(a.Key, b.Key)) })
	return out
}
