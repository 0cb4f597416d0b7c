package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// adviseGPUs says on standard error, before anything is waited for, that a
// job asks for GPUs where there is none at all, and which ways out there are.
// It is advice: a node with GPUs may still come, and where the nodes cannot be
// asked nothing is said.
func (o *options) adviseGPUs(ctx context.Context, reader client.Reader, job *v1alpha1.TrainingJob) {
	if !wantsGPUs(job) {
		return
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return
	}
	if advice := gpuAdvice(job, nodes.Items); advice != "" {
		streams := o.factory.Streams
		_, _ = fmt.Fprintln(streams.Err, streams.ErrStyle().Paint(terminal.Yellow, "No GPU:")+" "+advice)
	}
}

// gpuAdvice is what to say of a job that asks for GPUs; "" where a node has
// any, or does not tell.
func gpuAdvice(job *v1alpha1.TrainingJob, nodes []corev1.Node) string {
	if len(nodes) == 0 || !wantsGPUs(job) {
		return ""
	}
	for i := range nodes {
		inventory, told := device.Inventory(&nodes[i])
		if !told || len(inventory.GPUs) > 0 {
			return ""
		}
	}
	where := "this machine has none"
	if len(nodes) > 1 {
		where = fmt.Sprintf("none of the %d nodes has any", len(nodes))
	}
	return fmt.Sprintf(`%s, so %s waits (muster doctor says what is missing)
  to run without GPUs         muster delete %[2]s, and run it again without --gpus
  to try it on pretend ones   muster down, then muster up --detach --simulate-gpus 8xA100`, where, job.Name)
}

func wantsGPUs(job *v1alpha1.TrainingJob) bool {
	for _, role := range job.Spec.Roles {
		if role.GPUs != nil && role.GPUs.Sign() > 0 || role.GPUMemory != nil {
			return true
		}
	}
	return false
}
