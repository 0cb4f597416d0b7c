package rendezvous

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// pyTorchRanks returns the members that have a rank, in the order of their
// ranks: the chief (or master), then the workers. A gang of one role has the
// ranks of that role, whatever its name.
func (t *Table) pyTorchRanks() []Member {
	var ranks []Member
	for _, role := range []string{RoleChief, RoleMaster, RoleWorker} {
		ranks = append(ranks, t.byRole[role]...)
	}
	if len(ranks) == 0 && len(t.roles) == 1 {
		ranks = t.byRole[t.roles[0]]
	}
	return ranks
}

// pyTorch returns what torch.distributed's env:// initialisation and torchrun
// read. Seen by a script that is started directly, every member is one
// process: its rank is the member's. Under torchrun the member is a node with
// a process for each GPU, and torchrun gives its processes ranks of its own.
// The rendezvous is torchrun's static one, on the master's port: ranks are
// those of the table, and a lost member ends the run, which the gang then
// starts again.
func (t *Table) pyTorch(me Member) []corev1.EnvVar {
	ranks := t.pyTorchRanks()
	rank := -1
	for i, m := range ranks {
		if m.Role == me.Role && m.Index == me.Index {
			rank = i
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	master := ranks[0]
	port := strconv.Itoa(int(master.Port))
	nodes := strconv.Itoa(len(ranks))
	vars := []corev1.EnvVar{
		{Name: "MASTER_ADDR", Value: master.Host},
		{Name: "MASTER_PORT", Value: port},
		{Name: "WORLD_SIZE", Value: nodes},
	}
	if rank < 0 {
		return vars
	}
	processes := strconv.Itoa(max(1, me.GPUs))
	self := strconv.Itoa(rank)
	return append(vars,
		corev1.EnvVar{Name: "RANK", Value: self},
		corev1.EnvVar{Name: "LOCAL_RANK", Value: "0"},
		corev1.EnvVar{Name: "LOCAL_WORLD_SIZE", Value: "1"},
		corev1.EnvVar{Name: "GROUP_RANK", Value: self},
		corev1.EnvVar{Name: "GROUP_WORLD_SIZE", Value: nodes},
		corev1.EnvVar{Name: "ROLE_RANK", Value: self},
		corev1.EnvVar{Name: "ROLE_WORLD_SIZE", Value: nodes},
		corev1.EnvVar{Name: "NODE_RANK", Value: self},
		corev1.EnvVar{Name: "PET_NNODES", Value: nodes},
		corev1.EnvVar{Name: "PET_NPROC_PER_NODE", Value: processes},
		corev1.EnvVar{Name: "PET_NODE_RANK", Value: self},
		corev1.EnvVar{Name: "PET_MASTER_ADDR", Value: master.Host},
		corev1.EnvVar{Name: "PET_MASTER_PORT", Value: port},
		corev1.EnvVar{Name: "PET_RDZV_BACKEND", Value: "static"},
		corev1.EnvVar{Name: "PET_RDZV_ENDPOINT", Value: master.address()},
		corev1.EnvVar{Name: "PET_RDZV_ID", Value: t.gang.Name},
	)
}
