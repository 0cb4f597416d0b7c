package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// owner checks, on a machine that several users share, that the pod asks for nothing beyond the
// owner of its namespace. What only Muster of one user honours is checked in the other steps.
func (c *check) owner() {
	if !c.facts.Shared {
		return
	}
	who := c.facts.Owner
	if who == nil {
		c.refuse("metadata.namespace", "%q belongs to no user, and on a machine that users share a pod runs as the owner of its namespace: "+
			"use that of a user, u-<uid>, such as u-1000", c.pod.Namespace)
		return
	}
	if s := c.pod.Spec.SecurityContext; s != nil {
		const at = "spec.securityContext."
		c.ownIDs(at, s.RunAsUser, s.RunAsGroup)
		c.refuseIf(len(s.SupplementalGroups) > 0, at+"supplementalGroups", "%v cannot be asked for: the pod has all groups of user %d; remove it", s.SupplementalGroups, who.UID)
		if s.FSGroup != nil {
			c.refuse(at+"fsGroup", "%d cannot be asked for: files of the pod belong to user %d; remove it", *s.FSGroup, who.UID)
		}
	}
	c.allContainers(func(at string, ctr *corev1.Container, _ bool) {
		s := ctr.SecurityContext
		if s == nil {
			return
		}
		at += "securityContext."
		c.ownIDs(at, s.RunAsUser, s.RunAsGroup)
		c.refuseIf(isTrue(s.Privileged), at+"privileged", "true cannot be honoured: the pod runs as user %d, without privileges; remove it", who.UID)
		if s.Capabilities != nil && len(s.Capabilities.Add) > 0 {
			c.refuse(at+"capabilities.add", "%v cannot be honoured: the pod runs as user %d, without capabilities; remove it", s.Capabilities.Add, who.UID)
		}
		c.refuseIf(isTrue(s.AllowPrivilegeEscalation) && who.UID != 0, at+"allowPrivilegeEscalation",
			"true cannot be honoured: the pod runs as user %d and gains no rights, by sudo neither; remove it", who.UID)
	})
}

// ownIDs refuses another user and group than those of the namespace's owner.
func (c *check) ownIDs(at string, uid, gid *int64) {
	who := c.facts.Owner
	for _, id := range []struct {
		field      string
		asked      *int64
		kind, what string
		own        int64
	}{
		{"runAsUser", uid, "user", fmt.Sprintf("the owner of namespace %s", c.pod.Namespace), who.UID},
		{"runAsGroup", gid, "group", fmt.Sprintf("that of user %d", who.UID), who.GID},
	} {
		if id.asked != nil && *id.asked != id.own {
			c.refuse(at+id.field, "%d cannot be honoured: the pod runs as %s %d, %s; remove it", *id.asked, id.kind, id.own, id.what)
		}
	}
}
