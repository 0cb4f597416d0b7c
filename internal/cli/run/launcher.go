package run

import (
	"path"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// launcherAdvice is what to say of a job whose command is a launcher that does not work
// in its members; "" of others.
func launcherAdvice(spec *v1alpha1.TrainingJobSpec) string {
	members := membersOf(spec)
	for i := range spec.Roles {
		words := spec.Roles[i].Command
		if len(words) == 0 {
			continue
		}
		switch launcher := path.Base(words[0]); {
		case launcher == "deepspeed":
			return "deepspeed takes GPUs by their numbers on the machine, which may not be those that Muster gives the job: let torchrun start the script, as in `torchrun train.py`"
		case members > 1 && slices.Contains([]string{"mpirun", "mpiexec", "horovodrun"}, launcher):
			return launcher + " starts in every member and reaches no other one, because members have no SSH server: give one member all GPUs, or let torchrun start the script"
		case members > 1 && launcher == "torchrun" && slices.Contains(words, "--standalone"):
			return "torchrun --standalone is for one member: leave --standalone out, and the members find one another"
		}
	}
	return ""
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
