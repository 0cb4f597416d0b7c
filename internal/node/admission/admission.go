package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/node/limits"
)

// Refusal says which field of a pod the node cannot honour, and why.
type Refusal struct {
	// Field is the path of the field, as in spec.containers[0].image.
	Field string
	// Message says what was given, why it cannot be honoured and what to do.
	Message string
	// Passing is true for what may be otherwise in a while, without anybody
	// changing the pod or the node's configuration: something is in use.
	Passing bool
	// Elsewhere is true for a passing refusal that is due to the GPUs that the
	// scheduler chose: another pod like this one may be given others.
	Elsewhere bool
}

// Error is the refusal as one sentence.
func (r *Refusal) Error() string { return r.Field + ": " + r.Message }

// GPU is what admission must know of one of the node's GPUs.
type GPU struct {
	// Use is what other pods have of it.
	Use Use
	// MemoryMiB is the size of its memory; 0: not known.
	MemoryMiB int64
	// Unhealthy says why it must not be given out; empty: it may.
	Unhealthy string
}

// Owner is the Unix user whom a namespace belongs to.
type Owner struct{ UID, GID int64 }

// Facts is what admission must know of the node.
type Facts struct {
	// Isolated is true where pods have namespaces of their own.
	Isolated bool
	// Root is true where the node may run processes as any user.
	Root bool
	// UID and GID are the node's own user and group.
	UID, GID int64
	// Shared is true on a machine that several users share: a pod runs as the owner of its
	// namespace.
	Shared bool
	// Owner is the owner of the pod's namespace there; nil: it belongs to no user.
	Owner *Owner
	// Limits says whether the node keeps the limits of containers.
	Limits limits.Kept
	// GPUs are the node's GPUs by UUID.
	GPUs map[string]GPU
	// Job is the UID of the TrainingJob that owns the pod; empty: none does.
	Job types.UID
	// PortHolder names who listens on a port of the host, and is empty when
	// nobody does. Protocol is TCP, UDP or SCTP.
	PortHolder func(protocol corev1.Protocol, port int32) string
	// Images maps images to programs of this node.
	Images configuration.Images
	// NoImages says why other images cannot be run here; empty: they can.
	NoImages string
}

// Admit returns why the node cannot run the pod as it is written, or nil. Of
// several reasons, one that does not pass comes first.
func Admit(pod *corev1.Pod, facts Facts) *Refusal {
	c := &check{pod: pod, facts: facts}
	steps := []func(){c.unknown, c.owner, c.spec, c.podSecurity, c.volumes, c.job, c.containers, c.share, c.gpus}
	for _, step := range steps {
		if step(); c.refusal != nil && !c.refusal.Passing {
			return c.refusal
		}
	}
	return c.refusal
}

// check accumulates the first refusal, or the first that does not pass.
type check struct {
	pod     *corev1.Pod
	facts   Facts
	refusal *Refusal
}

// refuse records a refusal that does not pass, unless there is one.
func (c *check) refuse(field, format string, args ...any) {
	if c.refusal == nil || c.refusal.Passing {
		c.refusal = &Refusal{Field: field, Message: fmt.Sprintf(format, args...)}
	}
}

// refuseForNow records a refusal that may pass, unless there is any.
func (c *check) refuseForNow(field, format string, args ...any) {
	if c.refusal == nil {
		c.refusal = &Refusal{Field: field, Message: fmt.Sprintf(format, args...), Passing: true}
	}
}

// refuseHere records a passing refusal that a pod with other GPUs may not meet, unless there is one
// already.
func (c *check) refuseHere(field, format string, args ...any) {
	if c.refusal == nil {
		c.refuseForNow(field, format, args...)
		c.refusal.Elsewhere = true
	}
}

// refuseIf records a refusal when the condition holds.
func (c *check) refuseIf(condition bool, field, format string, args ...any) {
	if condition {
		c.refuse(field, format, args...)
	}
}

const (
	needsIsolation = "needs the isolated tier, and this node runs in the plain tier (see muster doctor); remove it"
	notHere        = "is not implemented by this node, which runs pods as processes; remove it"
)

// spec checks the pod's own fields, apart from security, volumes and
// containers.
func (c *check) spec() {
	s, plain := &c.pod.Spec, !c.facts.Isolated
	c.refuseIf(len(s.EphemeralContainers) > 0, "spec.ephemeralContainers", "%s; kubectl exec works", notHere)
	c.refuseIf(s.HostPID && !plain, "spec.hostPID", "true cannot be honoured: a pod has a process namespace of its own here; remove it")
	c.refuseIf(s.HostIPC && !plain, "spec.hostIPC", "true cannot be honoured: a pod has an IPC namespace of its own here; remove it")
	c.refuseIf(isTrue(s.ShareProcessNamespace) && !plain, "spec.shareProcessNamespace",
		"true cannot be honoured: every container has a process namespace of its own here; remove it")
	c.refuseIf(s.RuntimeClassName != nil && *s.RuntimeClassName != "", "spec.runtimeClassName", "%s", notHere)
	c.refuseIf(len(s.Overhead) > 0, "spec.overhead", "%s", notHere)
	c.refuseIf(s.OS != nil && s.OS.Name != corev1.Linux, "spec.os.name", "must be linux")
	c.refuseIf(s.HostUsers != nil && !*s.HostUsers, "spec.hostUsers", "false asks for a user namespace, which %s", notHere)
	c.refuseIf(len(s.ResourceClaims) > 0, "spec.resourceClaims", "%s", notHere)
	c.refuseIf(s.Resources != nil, "spec.resources", "pod-level resources are not implemented by this node; set them on the containers")
	c.refuseIf(isTrue(s.SetHostnameAsFQDN), "spec.setHostnameAsFQDN", "%s", notHere)
	c.refuseIf(plain && len(s.HostAliases) > 0, "spec.hostAliases", needsIsolation)
	c.refuseIf(plain && s.HostnameOverride != nil, "spec.hostnameOverride", needsIsolation)
	c.refuseIf(plain && s.DNSConfig != nil, "spec.dnsConfig", needsIsolation)
	c.refuseIf(plain && s.DNSPolicy == corev1.DNSNone, "spec.dnsPolicy", "None "+needsIsolation)
}

// podSecurity checks the pod's security context.
func (c *check) podSecurity() {
	s := c.pod.Spec.SecurityContext
	if s == nil {
		return
	}
	const at = "spec.securityContext."
	c.refuseIf(s.SELinuxOptions != nil, at+"seLinuxOptions", "%s", notHere)
	c.refuseIf(s.WindowsOptions != nil, at+"windowsOptions", "%s", notHere)
	c.refuseIf(len(s.SupplementalGroups) > 0, at+"supplementalGroups", "%s", notHere)
	c.refuseIf(s.FSGroup != nil, at+"fsGroup", "%s", notHere)
	c.refuseIf(len(s.Sysctls) > 0, at+"sysctls", "%s", notHere)
	c.seccomp(at+"seccompProfile", s.SeccompProfile)
	c.appArmor(at+"appArmorProfile", s.AppArmorProfile)
}

func (c *check) seccomp(field string, p *corev1.SeccompProfile) {
	c.refuseIf(p != nil && p.Type != corev1.SeccompProfileTypeUnconfined, field, "only Unconfined can be honoured: processes run unconfined here; remove it")
}

func (c *check) appArmor(field string, p *corev1.AppArmorProfile) {
	c.refuseIf(p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined, field, "only Unconfined can be honoured: processes run unconfined here; remove it")
}

func isTrue(b *bool) bool { return b != nil && *b }

// allContainers calls f for every init and ordinary container with its field
// path.
func (c *check) allContainers(f func(at string, ctr *corev1.Container, init bool)) {
	for i := range c.pod.Spec.InitContainers {
		f(fmt.Sprintf("spec.initContainers[%d].", i), &c.pod.Spec.InitContainers[i], true)
	}
	for i := range c.pod.Spec.Containers {
		f(fmt.Sprintf("spec.containers[%d].", i), &c.pod.Spec.Containers[i], false)
	}
}

// join names alternatives for a message.
func join(words []string) string { return strings.Join(words, ", ") }
