package alternative

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	job      = "write it as a TrainingJob, whose roles all start together: `muster run --nodes 4 --dry-run -o yaml -- python train.py` prints one"
	roles    = "write it as a TrainingJob, with a role for each task; all members start together, with their addresses in variables: `muster run --workers 2 --ps 1 --dry-run -o yaml -- python train.py` prints one"
	ranks    = "write it as a PyTorchJob of kubeflow.org/v1 with a container named pytorch: its members find MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK"
	launcher = "Muster starts every member itself and has no launcher over SSH: run mpirun or horovodrun inside one member with all GPUs, as in `muster run --gpus 4 -- mpirun -np 4 python train.py`, or write a PyTorchJob that starts torchrun"
	steps    = "write the steps as stages of a Pipeline (`muster pipeline apply -f FILE`); the jobs that it would create can be applied alone"
	queues   = "`muster queue create NAME --guaranteed gpu=8` makes a queue, and a job names it in spec.queue"
	together = "leave it out: Muster starts all members of a job together or none"
)

// kinds are the sentences by group and kind; "*" is every other kind of a group.
var kinds = map[string]map[string]string{
	"kubeflow.org": {
		"MPIJob": launcher, "JAXJob": ranks + " for jax.distributed.initialize", "XGBoostJob": ranks, "PaddleJob": job, "MXJob": roles,
	},
	"trainer.kubeflow.org": {
		"TrainJob": "write it as a PyTorchJob of kubeflow.org/v1, or as a TrainingJob: `muster run --nodes 3 --image IMAGE --dry-run -o yaml -- torchrun train.py` prints one",
		"*":        "a TrainingJob needs no runtime: leave it out",
	},
	"mlkube.io": {
		"TfJob": "write it as a TFJob of kubeflow.org/v1: spec.replicaSpecs is spec.tfReplicaSpecs there, a map from Chief, Worker and PS to replicas and template",
	},
	"batch.volcano.sh": {
		"Job": roles, "CronJob": "write it as a CronJob of batch/v1, whose pods ask for GPUs, or as a Pipeline with a cron input",
	},
	"bus.volcano.sh":              {"*": "leave it out: `muster suspend` and `muster resume` stop jobs and let them go on"},
	"flow.volcano.sh":             {"*": steps},
	"scheduling.volcano.sh":       {"Queue": queues, "PodGroup": together},
	"scheduling.incubator.k8s.io": {"Queue": queues, "PodGroup": together},
	"scheduling.x-k8s.io":         {"PodGroup": together},
	"kueue.x-k8s.io":              {"ClusterQueue": queues, "LocalQueue": "leave it out: a job names its queue in spec.queue or by the label muster.dev/queue", "ResourceFlavor": "leave it out: a job names GPU models itself", "*": "leave it out: Muster queues jobs itself"},
	"argoproj.io":                 {"Workflow": steps, "WorkflowTemplate": steps, "ClusterWorkflowTemplate": steps, "CronWorkflow": steps},
	"tekton.dev":                  {"*": steps},
	"sparkoperator.k8s.io":        {"*": "write it as a stage of a Pipeline with spark: in it (`muster pipeline apply -f FILE`)"},
	"jobset.x-k8s.io":             {"JobSet": roles},
	"ray.io":                      {"*": "run the script in one member with all GPUs: `muster run --gpus 4 -- python train.py`, where ray.init() starts Ray"},
	"workload.codeflare.dev":      {"AppWrapper": "apply the objects that it wraps: " + together},
	"serving.kserve.io":           {"*": "write it as a Deployment whose pods ask for GPUs"},
}

// Of returns the sentence for a kind, or "".
func Of(kind schema.GroupKind) string {
	group := kinds[kind.Group]
	if sentence := group[kind.Kind]; sentence != "" {
		return sentence
	}
	return group["*"]
}

// Phrase returns the advice for a kind that a server does not have, as the end of a message: ":
// SENTENCE", or "". Served are the versions in which it has a kind of that name and group.
func Phrase(kind schema.GroupKind, served []string) string {
	if len(served) > 0 {
		versions := make([]string, len(served))
		for i, v := range served {
			versions[i] = schema.GroupVersion{Group: kind.Group, Version: v}.String()
		}
		return fmt.Sprintf(": it has %s as %s; write that apiVersion, and check that the fields are the same", kind.Kind, strings.Join(versions, ", "))
	}
	if sentence := Of(kind); sentence != "" {
		return ": " + sentence
	}
	return ""
}
