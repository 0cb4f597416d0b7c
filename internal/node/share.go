package node

import (
	"crypto/sha256"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/process"
)

// lockGroup is whose containers may share the lock of a GPU: those of the
// Muster with this data folder.
func lockGroup(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return fmt.Sprintf("%x", sum[:8])
}

// share keeps a container to its part of the device, as far as that can be
// done here, and notes whether it can.
func (w *worker) share(v *expansion.Variables, s *process.Spec, device gpu.Device, isolated bool) {
	given := admission.ShareOf(w.pod)
	s.SharedLocks = []string{gpu.LockPath(device.UUID)}
	s.LockGroup = lockGroup(w.node.config.DataDir)
	part := gpu.Share{Milli: given.Milli, MemoryMiB: given.MiB}
	setDefaults(v, gpu.ShareEnviron(device, part))

	c := gpu.Circumstances{
		Device: device, Devices: len(w.node.inventory.Devices()), Share: part, Isolated: isolated, OtherUser: s.UID != nil,
	}
	for _, name := range gpu.MPSVariables() {
		if _, own := v.Get(name); own {
			c.Own = append(c.Own, name)
		}
	}
	if !device.Simulated && !isolated && !c.OtherUser {
		mps, err := gpu.FindMPS(w.ctx)
		if err != nil {
			c.NoMPS = err.Error()
		} else {
			c.MPS, c.Driver = mps, gpu.DriverVersion()
			setDefaults(v, mps.Environ(part))
		}
	}
	verdict := gpu.Enforce(c)
	w.enforcement = &corev1.PodCondition{
		Type: v1alpha1.ConditionGPUShare, Status: truth(verdict.Enforced), Reason: "NotEnforced",
		Message: given.String() + ", " + verdict.String(),
	}
	if verdict.Enforced {
		w.enforcement.Reason = "Enforced"
	}
}

// setDefaults sets what the container does not set itself.
func setDefaults(v *expansion.Variables, vars []gpu.Variable) {
	for _, each := range vars {
		if !slices.ContainsFunc(each.Unless, func(name string) bool { _, set := v.Get(name); return set }) {
			v.Default(each.Name, each.Value)
		}
	}
}

// enforced is what was last said of the pod's share: by this Muster, or by the
// one that started what runs.
func (w *worker) enforced() *corev1.PodCondition {
	if w.enforcement != nil {
		return w.enforcement
	}
	return condition(w.pod, v1alpha1.ConditionGPUShare)
}
