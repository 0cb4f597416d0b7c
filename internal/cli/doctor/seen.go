package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/visibility"
)

// Seen lists what keeps jobs of a caller from starting, by the rule: nodes, GPUs, pauses and
// the queue and quotas of the caller's namespace. LowRoom is the message about a full disk;
// empty: there is space.
func Seen(ctx context.Context, reader client.Reader, rule visibility.Rule, logins visibility.Logins, lowRoom string) ([]Finding, error) {
	nodes, err := snapshot.Nodes(ctx, reader)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	queue, err := ownQueue(ctx, reader, rule.Own)
	if err != nil {
		return nil, err
	}
	marks, err := standstill.Of(ctx, reader, queue)
	if err != nil {
		return nil, err
	}
	quotas, err := ownQuotas(ctx, reader, rule.Own)
	if err != nil {
		return nil, err
	}
	findings := append([]Finding{nodesSeen(nodes)}, gpusSeen(nodes, pods.Items, rule, logins)...)
	if lowRoom != "" {
		findings = append(findings, Finding{"disk", Bad, lowRoom, "an administrator makes room on the disk of Muster's data folder; only removal works until then"})
	}
	for _, mark := range marks {
		mark.Login = rule.Queue(mark.Queue, logins)
		findings = append(findings, Finding{"scheduling", Limited, mark.String() + "; nothing new starts", "an administrator ends it: " + mark.Remedy()})
	}
	return append(findings, quotas...), nil
}

// nodesSeen says how many nodes take pods.
func nodesSeen(nodes []corev1.Node) Finding {
	var not []string
	for i := range nodes {
		ready := slices.ContainsFunc(nodes[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !ready {
			not = append(not, nodes[i].Name)
		}
	}
	switch {
	case len(nodes) == 0:
		return Finding{"nodes", Bad, "there is no node", "an administrator starts or adds one"}
	case len(not) == len(nodes):
		return Finding{"nodes", Bad, "no node is ready: " + strings.Join(not, ", "), "an administrator makes them ready again"}
	case len(not) > 0:
		return Finding{"nodes", Limited, fmt.Sprintf("%d of %d are ready; not %s", len(nodes)-len(not), len(nodes), strings.Join(not, ", ")), "an administrator makes them ready again"}
	}
	return Finding{"nodes", Good, fmt.Sprintf("%d of %d are ready", len(nodes), len(nodes)), ""}
}

// gpusSeen says which GPUs are not given out, and who uses them.
func gpusSeen(nodes []corev1.Node, pods []corev1.Pod, rule visibility.Rule, logins visibility.Logins) []Finding {
	var findings []Finding
	count, free := 0, 0
	held := map[string]bool{}
	for i := range pods {
		if device.Holds(&pods[i]) {
			for _, uuid := range device.Of(&pods[i]) {
				held[pods[i].Spec.NodeName+" "+uuid] = true
			}
		}
	}
	for i := range nodes {
		node := &nodes[i]
		inventory, _ := device.Inventory(node)
		for k := range inventory.GPUs {
			g := &inventory.GPUs[k]
			device.SeenOn(rule, nil, g)
			where := fmt.Sprintf("GPU %d of %s", g.Index, node.Name)
			count++
			switch {
			case g.Unhealthy != "":
				findings = append(findings, Finding{"GPUs", Limited, where + " is not given out: " + g.Unhealthy, "an administrator mends it"})
			case len(g.Foreign) > 0:
				findings = append(findings, Finding{"GPUs", Limited, where + " is used by " + outsider(g.Foreign[0]), "it is given out once that process has ended"})
			case !held[node.Name+" "+g.UUID]:
				free++
			}
		}
		gone := device.GoneFrom(node, pods)
		for k := range gone {
			gone[k].Holder = gone[k].Holder.Seen(rule, logins)
		}
		for _, words := range device.Words(gone) {
			findings = append(findings, Finding{"GPUs held", Limited, words, "an administrator brings them back"})
		}
	}
	return append([]Finding{{"GPUs", Good, fmt.Sprintf("%d, of which %d are free", count, free), ""}}, findings...)
}

// outsider names a process that Muster did not start.
func outsider(p v1alpha1.ForeignProcess) string {
	text := fmt.Sprintf("process %d", p.PID)
	if p.User != "" {
		text += " of " + p.User
	}
	if p.Command != "" {
		text += " (" + p.Command + ")"
	}
	return text + ", which is not Muster's"
}

// ownQueue is the queue of jobs in a namespace that name none.
func ownQueue(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	var own corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: namespace}, &own); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return cmp.Or(own.Annotations[v1alpha1.AnnotationQueue], v1alpha1.DefaultQueue), nil
}

// ownQuotas are the quotas of a namespace of which nothing is left.
func ownQuotas(ctx context.Context, reader client.Reader, namespace string) ([]Finding, error) {
	var list corev1.ResourceQuotaList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the quotas of %s: %w", namespace, err)
	}
	var findings []Finding
	for i := range list.Items {
		q := &list.Items[i]
		for name, hard := range q.Status.Hard {
			if used := q.Status.Used[name]; used.Cmp(hard) >= 0 && !hard.IsZero() {
				findings = append(findings, Finding{"quota", Limited, fmt.Sprintf("%s allows %s of %s, and all of it is used", q.Name, hard.String(), name), "end a job, or have the quota raised"})
			}
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Says, b.Says) })
	return findings, nil
}

// atDoor has Muster itself look, for a caller who may not.
func atDoor(ctx context.Context, f *connection.Factory) ([]Finding, error) {
	manager, err := f.Visitor()
	if err != nil {
		return nil, err
	}
	namespace, err := f.Namespace()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	err = manager.Ask(ctx, namespace, "/doctor", nil, &findings)
	return findings, err
}
