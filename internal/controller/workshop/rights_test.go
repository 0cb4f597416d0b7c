package workshop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestRightsOfABuild runs a build as the user of its members, without their rights. On a
// cluster the build has fewer rights than a pod without a security context.
func TestRightsOfABuild(t *testing.T) {
	ptr := func(b bool) *bool { return &b }
	user, unmasked := int64(7), corev1.UnmaskedProcMount
	much := &corev1.SecurityContext{
		Privileged: ptr(true), AllowPrivilegeEscalation: ptr(true), ProcMount: &unmasked, RunAsUser: &user,
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
	}
	unconfined := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	byDefault := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for name, c := range map[string]struct {
		has  *corev1.SecurityContext
		pod  *corev1.PodSecurityContext
		here bool
		want *corev1.SecurityContext
	}{
		"nothing is said":              {nil, nil, false, &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), SeccompProfile: byDefault}},
		"much is asked":                {much, nil, false, &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), SeccompProfile: byDefault, RunAsUser: &user, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}},
		"a profile is named":           {nil, &corev1.PodSecurityContext{SeccompProfile: unconfined}, false, &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false)}},
		"on one machine":               {nil, nil, true, nil},
		"much is asked on one machine": {much, nil, true, &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(true), RunAsUser: &user, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if c.here {
				o.Look = func(string) Image { return Image{} }
			}
			roles := []v1alpha1.Role{{Name: "worker", Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				SecurityContext: c.pod, Containers: []corev1.Container{{Name: "main", SecurityContext: c.has}},
			}}}}
			pod := o.podFor(customer{namespace: "vision", roles: roles}, aBuild(t))
			if diff := cmp.Diff(c.want, pod.Spec.Containers[0].SecurityContext); diff != "" {
				t.Error(diff)
			}
			if no := pod.Spec.AutomountServiceAccountToken; no == nil || *no || pod.Spec.HostNetwork || pod.Spec.HostPID {
				t.Errorf("it has a token, or a folder or namespace of the node: %+v", pod.Spec)
			}
		})
	}
	if much.Privileged == nil || len(much.Capabilities.Add) != 1 {
		t.Error("the members' own rights were changed")
	}
}
