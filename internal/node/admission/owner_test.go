package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestOwner: on a machine that users share, a pod asks for nothing beyond the owner of its
// namespace. A refusal is one sentence, which names the field, and lasts.
func TestOwner(t *testing.T) {
	const c = "spec.containers[0].securityContext."
	podContext := func(s corev1.PodSecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SecurityContext = &s }
	}
	ada := &Owner{UID: 1000, GID: 100}
	for _, tc := range []struct {
		name  string
		owner *Owner
		edit  func(*corev1.Pod)
		says  string // how the refusal begins; empty: admitted
	}{
		{"as it is", ada, func(*corev1.Pod) {}, ""},
		{"of no user", nil, func(p *corev1.Pod) { p.Namespace = "default" }, `metadata.namespace: "default" belongs to no user`},
		{"of Muster's own parts", nil, func(p *corev1.Pod) { p.Namespace = "muster-system" }, `metadata.namespace: "muster-system" belongs to no user`},
		{"root", ada, security(corev1.SecurityContext{RunAsUser: ptr(int64(0))}), c + "runAsUser: 0 cannot be honoured: the pod runs as user 1000, the owner of namespace"},
		{"another user", ada, security(corev1.SecurityContext{RunAsUser: ptr(int64(1001))}), c + "runAsUser: 1001 cannot"},
		{"another user of the pod", ada, podContext(corev1.PodSecurityContext{RunAsUser: ptr(int64(1001))}), "spec.securityContext.runAsUser: 1001 cannot"},
		{"another user of the pod, under the owner", ada, func(p *corev1.Pod) {
			podContext(corev1.PodSecurityContext{RunAsUser: ptr(int64(0))})(p)
			security(corev1.SecurityContext{RunAsUser: ptr(int64(1000))})(p)
		}, "spec.securityContext.runAsUser: 0 cannot"},
		{"a number beyond 32 bits", ada, security(corev1.SecurityContext{RunAsUser: ptr(int64(1)<<32 + 1000)}), c + "runAsUser: 4294968296 cannot"},
		{"the owner", ada, security(corev1.SecurityContext{RunAsUser: ptr(int64(1000)), RunAsGroup: ptr(int64(100)), RunAsNonRoot: ptr(true)}), ""},
		{"another group", ada, security(corev1.SecurityContext{RunAsGroup: ptr(int64(0))}), c + "runAsGroup: 0 cannot be honoured: the pod runs as group 100, that of user 1000; remove it"},
		{"another group of the pod", ada, podContext(corev1.PodSecurityContext{RunAsGroup: ptr(int64(0))}), "spec.securityContext.runAsGroup: 0 cannot"},
		{"supplemental groups", ada, podContext(corev1.PodSecurityContext{SupplementalGroups: []int64{27}}), "spec.securityContext.supplementalGroups: [27] cannot"},
		{"fsGroup", ada, podContext(corev1.PodSecurityContext{FSGroup: ptr(int64(0))}), "spec.securityContext.fsGroup: 0 cannot"},
		{"privileged", ada, security(corev1.SecurityContext{Privileged: ptr(true)}), c + "privileged: true cannot"},
		{"capabilities", ada, security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}), c + "capabilities.add: [SYS_ADMIN] cannot"},
		{"gain of rights", ada, security(corev1.SecurityContext{AllowPrivilegeEscalation: ptr(true)}), c + "allowPrivilegeEscalation: true cannot"},
		{"gain of rights, by root", &Owner{}, security(corev1.SecurityContext{AllowPrivilegeEscalation: ptr(true)}), ""},
		{"not root, as root", &Owner{}, security(corev1.SecurityContext{RunAsNonRoot: ptr(true)}), c + "runAsNonRoot: true"},
		{"an init container", ada, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "before", Image: HostImage, Command: []string{"true"}, SecurityContext: &corev1.SecurityContext{RunAsUser: ptr(int64(0))}}}
		}, "spec.initContainers[0].securityContext.runAsUser: 0 cannot"},
		{"a post of a stage", ada, source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.StageDriver, VolumeAttributes: map[string]string{"work": "a.s"}}}), ""},
		{"a post of no stage", ada, source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.StageDriver}}), "spec.volumes[0].csi.volumeAttributes: needs work"},
		{"an image", ada, first(func(c *corev1.Container) { c.Image = "nginx:1" }), "spec.containers[0].image: this node cannot run the image"},
	} {
		for tier, facts := range map[string]Facts{"plain": plain(), "isolated": isolated()} {
			t.Run(tc.name+", "+tier, func(t *testing.T) {
				facts.Shared, facts.Owner, facts.NoImages = true, tc.owner, ""
				r := Admit(pod(tc.edit), facts)
				switch {
				case tc.says == "" && r != nil, tc.says != "" && (r == nil || !strings.HasPrefix(r.Error(), tc.says)):
					t.Errorf("refused: %v, want %q", r, tc.says)
				case r != nil && (r.Passing || strings.Contains(r.Message, "\n")):
					t.Errorf("refused: %+v, want a lasting sentence", r)
				}
			})
		}
	}
}
