package run

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// numberReaders are programs that read CUDA_VISIBLE_DEVICES as numbers, in all or many
// releases.
var numberReaders = []string{"deepspeed", "vllm"}

// launcherAdvice returns advice for a job whose command is a launcher that does not work in
// its members; "" for other jobs. Uuids reports that members find UUIDs of GPUs in
// CUDA_VISIBLE_DEVICES.
func launcherAdvice(spec *v1alpha1.TrainingJobSpec, uuids bool) string {
	members := membersOf(spec)
	for i := range spec.Roles {
		words := spec.Roles[i].Command
		if len(words) == 0 {
			continue
		}
		switch launcher := path.Base(words[0]); {
		case members > 1 && slices.Contains([]string{"deepspeed", "mpirun", "mpiexec", "horovodrun"}, launcher):
			return launcher + " starts in every member and reaches no other one, because members have no SSH server: give one member all GPUs, or let torchrun start the script"
		case uuids && launcher == "deepspeed" && slices.ContainsFunc(words, choosesGPUs):
			return "deepspeed counts the machine's GPUs from 0, so these may be GPUs of other jobs, as Muster runs in the plain tier: let torchrun start the script, as in `torchrun train.py`"
		case uuids && launcher == "deepspeed":
			return "deepspeed reads CUDA_VISIBLE_DEVICES as numbers and fails, because it has UUIDs in the plain tier: let torchrun start the script, as in `torchrun train.py`"
		case uuids && launcher == "vllm":
			return "many releases of vllm read CUDA_VISIBLE_DEVICES as numbers and fail, because it has UUIDs in the plain tier: name an image (--image), or, for a job with all GPUs of the machine, start it as `env -u CUDA_VISIBLE_DEVICES vllm serve MODEL`"
		case members > 1 && launcher == "torchrun" && slices.Contains(words, "--standalone"):
			return "torchrun --standalone is for one member: leave --standalone out, and the members find one another"
		}
	}
	return ""
}

// choosesGPUs reports whether a word of deepspeed's command line makes it choose GPUs
// itself. It then ignores CUDA_VISIBLE_DEVICES.
func choosesGPUs(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	return slices.Contains([]string{"--num_gpus", "--num_accelerators", "--include", "-i", "--exclude", "-e"}, name)
}

// tellsUUIDs reports whether members of the job find UUIDs in CUDA_VISIBLE_DEVICES: on a
// node of the plain tier, unless they run in an image. Only such a node gives out ports
// of its machine. It asks only for programs that read numbers.
func tellsUUIDs(ctx context.Context, reader client.Reader, spec *v1alpha1.TrainingJobSpec) bool {
	reads := slices.ContainsFunc(spec.Roles, func(r v1alpha1.Role) bool {
		return len(r.Command) > 0 && slices.Contains(numberReaders, path.Base(r.Command[0]))
	})
	if !reads || spec.Environment != nil && spec.Environment.Image != "" {
		return false
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return false // on a cluster users may not list nodes, and members find numbers
	}
	return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool {
		var has v1alpha1.NodeInventory
		return json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationInventory]), &has) == nil && has.HostPorts != nil
	})
}

// startsTorch reports whether a command is torchrun, under any of its names.
func startsTorch(command []string) bool {
	if len(command) == 0 {
		return false
	}
	base := path.Base(command[0])
	return base == "torchrun" || strings.HasPrefix(base, "python") && len(command) > 2 && command[1] == "-m" &&
		(command[2] == "torch.distributed.run" || command[2] == "torch.distributed.launch")
}

// membersOf counts the members that a job asks for.
func membersOf(spec *v1alpha1.TrainingJobSpec) int32 {
	members := int32(0)
	for i := range spec.Roles {
		if replicas := spec.Roles[i].Replicas; replicas != nil {
			members += *replicas
		} else {
			members++
		}
	}
	return members
}
