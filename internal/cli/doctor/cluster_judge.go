package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/installation"
)

// Labels by which others say that a machine has GPUs of NVIDIA, and how much
// memory they have.
const (
	labelGPUPresent = "nvidia.com/gpu.present"
	labelPCI        = "feature.node.kubernetes.io/pci-10de.present"
	labelGPUMemory  = "nvidia.com/gpu.memory"
)

func judgeServer(s scene) Finding {
	if refusal := s.server.TooOld(); refusal != "" {
		return Finding{"server", Bad, refusal, "upgrade the cluster"}
	}
	says := "Kubernetes " + s.server.Version
	if !s.server.Stamps() {
		return Finding{"server", Good, says + "; who submits is checked, not stamped (MutatingAdmissionPolicy v1 comes with 1.36)", ""}
	}
	return Finding{"server", Good, says, ""}
}

func judgeKinds(s scene) []Finding {
	var missing, foreign, newer, older []string
	for _, k := range s.kinds {
		switch {
		case k.Owner == installation.Nobody:
			missing = append(missing, k.Name)
		case k.Owner == installation.Foreign:
			foreign = append(foreign, k.Name)
		case len(k.Losses) > 0:
			newer = append(newer, k.Name+" of "+k.Version)
		case len(k.Lacks) > 0:
			older = append(older, k.Name+" of "+k.Version)
		}
	}
	switch {
	case len(foreign) > 0:
		return []Finding{{"kinds", Bad, "of somebody else under Muster's names: " + strings.Join(foreign, ", "), "remove them if nobody needs them; Muster never overwrites them"}}
	case len(missing) > 0:
		return []Finding{{"kinds", Bad, "missing: " + strings.Join(missing, ", "), "muster install"}}
	case len(older) > 0:
		return []Finding{{"kinds", Limited, "older than this program: " + strings.Join(older, ", "), "muster install upgrades them with the manager"}}
	case len(newer) > 0:
		return []Finding{{"kinds", Good, "newer than this program, which works with them: " + strings.Join(newer, ", "), "use the program of that version to see everything"}}
	}
	return []Finding{{"kinds", Good, "as this program knows them", ""}}
}

func judgeManager(s scene) []Finding {
	m := s.manager
	switch {
	case m.Version == "":
		return []Finding{{"manager", Bad, "not installed", "muster install"}}
	case m.Wanted == 0:
		return []Finding{{"manager", Bad, "version " + m.Version + ", scaled to no replica: what runs goes on, nothing new starts", "muster install --set manager.replicas=2"}}
	case m.Available == 0:
		return []Finding{{"manager", Bad, fmt.Sprintf("version %s: %s", m.Version, m), "kubectl -n " + v1alpha1.SystemNamespace + " describe pods says more; what runs goes on meanwhile"}}
	case !m.Ready():
		return []Finding{{"manager", Limited, fmt.Sprintf("version %s: %s", m.Version, m), "wait, or look at kubectl -n " + v1alpha1.SystemNamespace + " describe pods"}}
	case m.Version != installation.VersionLabel(s.here):
		return []Finding{{"manager", Good, fmt.Sprintf("version %s, ready; this program is %s", m.Version, s.here), "muster install brings the manager to this program's version"}}
	}
	return []Finding{{"manager", Good, fmt.Sprintf("version %s: %s", m.Version, m), ""}}
}

// judgeGPUs looks at what counts or names the GPUs of nodes, and whether their
// models are known.
func judgeGPUs(s scene) []Finding {
	drivers := map[string][]string{} // by node
	for i := range s.slices {
		spec := &s.slices[i].Spec
		if spec.NodeName != nil && !slices.Contains(drivers[*spec.NodeName], spec.Driver) {
			drivers[*spec.NodeName] = append(drivers[*spec.NodeName], spec.Driver)
		}
	}
	var able, owned, bare, unnamed, twice []string
	for i := range s.nodes {
		n := &s.nodes[i]
		count := n.Status.Allocatable[v1alpha1.ResourceGPU]
		switch {
		case count.Value() > 0 || len(drivers[n.Name]) > 0:
			able = append(able, n.Name)
			if n.Labels[installation.LabelOwned] == "true" {
				owned = append(owned, n.Name)
			}
			if gpus := slices.DeleteFunc(slices.Clone(drivers[n.Name]), notGPUs); len(gpus) > 1 || len(gpus) == 1 && count.Value() > 0 {
				twice = append(twice, n.Name)
			}
			if len(drivers[n.Name]) == 0 && (n.Labels[v1alpha1.LabelGPUModel] == "" || n.Labels[labelGPUMemory] == "") {
				unnamed = append(unnamed, n.Name)
			}
		case n.Labels[labelGPUPresent] == "true" || n.Labels[labelPCI] == "true":
			bare = append(bare, n.Name)
		}
	}
	var out []Finding
	if len(bare) > 0 {
		out = append(out, Finding{"GPU driver", Limited, "nodes with GPUs that nobody counts: " + some(bare),
			"install the GPU driver and a device plugin (or a DRA driver) on them: the vendor's GPU operator does both; kubectl describe node shows nvidia.com/gpu once it works"})
	}
	switch {
	case len(able) == 0 && len(bare) == 0:
		return append(out, Finding{"GPUs", Limited, "no node has GPUs", "jobs without GPUs run; add nodes with GPUs, their driver and a device plugin or DRA driver"})
	case len(able) > 0 && len(owned) == 0:
		out = append(out, Finding{"GPUs", Limited, fmt.Sprintf("%s with GPUs, none of which is Muster's", terminal.Count(int64(len(able)), "node")), "muster node add NODE gives Muster one: " + some(able)})
	case len(able) > 0:
		out = append(out, Finding{"GPUs", Good, fmt.Sprintf("%s with GPUs, of which Muster has %s", terminal.Count(int64(len(able)), "node"), some(owned)), ""})
	}
	if len(twice) > 0 {
		out = append(out, Finding{"GPU owners", Limited, "the GPUs of nodes are given out twice, by a device plugin and a DRA driver or by two drivers: " + some(twice),
			"keep one of them on each node; Muster uses the driver's, and what the plugin gives out beside it is not in its ledger"})
	}
	if len(unnamed) > 0 {
		out = append(out, Finding{"GPU models", Limited, "model or memory of the GPUs is not known of " + some(unnamed),
			"install GPU feature discovery, or label them: kubectl label node NODE nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB nvidia.com/gpu.memory=81920"})
	}
	return out
}

// notGPUs reports that a DRA driver gives out something else.
func notGPUs(driver string) bool { return !strings.HasPrefix(driver, "gpu.") }

// judgeSchedulers looks for pods with GPUs on Muster's nodes that somebody else
// put there.
func judgeSchedulers(s scene) []Finding {
	owned := map[string]bool{}
	for i := range s.nodes {
		if s.nodes[i].Labels[installation.LabelOwned] == "true" {
			owned[s.nodes[i].Name] = true
		}
	}
	var strangers []string
	for i := range s.pods {
		p := &s.pods[i]
		if owned[p.Spec.NodeName] && p.Spec.SchedulerName != v1alpha1.SchedulerName && !ended(p) && !ofDaemonSet(p) && asksGPU(p) {
			strangers = append(strangers, fmt.Sprintf("%s/%s on %s (by %s)", p.Namespace, p.Name, p.Spec.NodeName, p.Spec.SchedulerName))
		}
	}
	if len(strangers) == 0 && len(s.claimed) == 0 {
		return []Finding{{"other schedulers", Good, "nobody else has put pods with GPUs on Muster's nodes", ""}}
	}
	out := judgeClaims(s)
	if len(strangers) == 0 {
		return out
	}
	return append(out, Finding{"other schedulers", Limited, terminal.Count(int64(len(strangers)), "pod") + " with GPUs on Muster's nodes that Muster did not place: " + some(strangers),
		"Muster leaves them alone and counts their GPUs as taken; move them: delete them and set spec.schedulerName to muster where they come from"})
}

// judgeClaims reports GPUs of Muster's nodes that are allocated to claims that Muster did not make.
func judgeClaims(s scene) []Finding {
	var claims []string
	for i := range s.claimed {
		h := &s.claimed[i]
		text := h.Claim.String()
		if h.Pod != "" {
			text += " of pod " + h.Pod
		}
		claims = append(claims, text+" on "+h.Node)
	}
	if len(claims) == 0 {
		return nil
	}
	slices.Sort(claims)
	claims = slices.Compact(claims)
	return []Finding{{"claims of others", Limited, fmt.Sprintf("%s of Muster's nodes held by claims that Muster did not make: %s", terminal.Count(int64(len(s.claimed)), "GPU"), some(claims)),
		"Muster counts them as taken until the claims are deallocated; a DeviceClass that selects these devices lets kube-scheduler give them out: change its selectors, and ask for GPUs by " + v1alpha1.ResourceGPU + " with spec.schedulerName muster"}}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func ofDaemonSet(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

func asksGPU(p *corev1.Pod) bool {
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		if q, some := r.Limits[v1alpha1.ResourceGPU]; some && !q.IsZero() {
			return true
		}
	}
	return false // the claim names the holder of its GPUs
}

func judgeStorage(s scene) []Finding {
	const isDefault = "storageclass.kubernetes.io/is-default-class"
	var names []string
	for i := range s.classes {
		if s.classes[i].Annotations[isDefault] == "true" {
			return []Finding{{"storage", Good, "the default StorageClass is " + s.classes[i].Name, ""}}
		}
		names = append(names, s.classes[i].Name)
	}
	if len(names) == 0 {
		return []Finding{{"storage", Limited, "there is no StorageClass: jobs with checkpoints wait for a volume that nobody makes", "install a CSI driver that can be written from several nodes (ReadWriteMany); jobs without checkpoints run"}}
	}
	return []Finding{{"storage", Limited, "no StorageClass is the default one: " + some(names), fmt.Sprintf("kubectl annotate storageclass %s %s=true", names[0], isDefault)}}
}

// judgeData says where versioned data is kept. What a manager has not said that does
// not run is not known.
func judgeData(s scene) []Finding {
	switch {
	case s.data != "":
		return []Finding{{"data", Good, "versioned data is kept in " + s.data, ""}}
	case s.manager.Available == 0:
		return nil
	}
	return []Finding{{"data", Limited, "there is no store of data: muster data is refused, and so is what reads datasets", "name a bucket: muster install --set data.s3.endpoint=...,data.s3.bucket=...,data.s3.secret=...; docs/data.md says more"}}
}

// judgeGateway says whether S3 clients reach data; nothing where they are not
// to. Of a Service for a load balancer it says, too, whether it has an address.
func judgeGateway(s scene) []Finding {
	const name = "S3 gateway"
	if len(s.gateways) == 0 {
		return nil
	}
	service := &s.gateways[0]
	ready := 0
	for i := range s.doors {
		for _, endpoint := range s.doors[i].Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready += len(endpoint.Addresses)
			}
		}
	}
	at := service.Name + "." + service.Namespace + ".svc"
	if len(service.Spec.Ports) > 0 {
		at = fmt.Sprintf("%s:%d", at, service.Spec.Ports[0].Port)
	}
	switch {
	case ready == 0:
		return []Finding{{name, Bad, "no replica of the manager is behind " + at + ": S3 clients reach nothing", "kubectl -n " + service.Namespace + " describe pods says why; data.gateway.enabled=false takes the gateway away"}}
	case service.Spec.Type == corev1.ServiceTypeLoadBalancer && len(service.Status.LoadBalancer.Ingress) == 0:
		return []Finding{{name, Limited, at + " answers inside the cluster; its load balancer has no address yet", "kubectl -n " + service.Namespace + " describe service " + service.Name + " says why; where nobody makes load balancers: data.gateway.service.type=ClusterIP"}}
	}
	return []Finding{{name, Good, fmt.Sprintf("%s, %s; `muster data key create` makes a key", at, terminal.Count(int64(ready), "replica")), ""}}
}

// How far clocks may be apart. Leases are renewed every 10 s, and what a node
// says of itself is old after 40 s.
const (
	apart  = 2 * time.Second
	silent = 60 * time.Second
)

func judgeClocks(s scene) []Finding {
	var out []Finding
	if off := s.clock.here.Sub(s.clock.server); off.Abs() > apart+s.clock.within {
		out = append(out, Finding{"clocks", Limited, fmt.Sprintf("this machine's clock is %s the API server's", direction(off)), "set this machine's clock (chrony or systemd-timesyncd): times in messages are off by as much"})
	}
	ready := map[string]bool{}
	for i := range s.nodes {
		for _, c := range s.nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready[s.nodes[i].Name] = true
			}
		}
	}
	var wrong []string
	for i := range s.beats {
		b := &s.beats[i]
		if b.Spec.RenewTime == nil || !ready[b.Name] {
			continue
		}
		off := b.Spec.RenewTime.Sub(s.clock.server)
		if off > apart || off < -silent {
			wrong = append(wrong, fmt.Sprintf("%s is %s", b.Name, direction(off)))
		}
	}
	if len(wrong) > 0 {
		out = append(out, Finding{"clocks", Limited, "by the signs of life of nodes that are ready, against the API server's clock: " + some(wrong),
			"set their clocks (chrony): start times, run times and deadlines are off by as much, and a node far behind is taken for lost"})
	}
	if len(out) == 0 {
		out = append(out, Finding{"clocks", Good, fmt.Sprintf("this machine, the API server and %s agree within %s", terminal.Count(int64(len(ready)), "node"), apart), ""})
	}
	return out
}

func direction(off time.Duration) string {
	if off < 0 {
		return fmt.Sprintf("%s behind", (-off).Round(time.Second))
	}
	return fmt.Sprintf("%s ahead of", off.Round(time.Second))
}

// some names the first few.
func some(all []string) string {
	const few = 4
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}
