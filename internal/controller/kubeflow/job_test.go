package kubeflow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProblems(t *testing.T) {
	const one = "tfReplicaSpecs:\n    PS:"
	tests := []struct {
		name, text string
		// want is what each problem begins with.
		want []string
	}{
		{"a TFJob", mnist, nil},
		{"a PyTorchJob", send, nil},
		{
			"an unknown field of the spec", with(t, mnist, "  tfReplicaSpecs:", "  tfReplicaSpec: {}\n  tfReplicaSpecs:"),
			[]string{"spec.tfReplicaSpec is not a field that is known here: correct it, or remove it"},
		},
		{
			"a field of an early version", with(t, mnist, "  tfReplicaSpecs:", "  cleanPodPolicy: All\n  tfReplicaSpecs:"),
			[]string{"spec.cleanPodPolicy is now spec.runPolicy.cleanPodPolicy: move it there"},
		},
		{
			"the replicas of the first version", with(t, mnist, "  tfReplicaSpecs:", "  replicaSpecs: []\n  tfReplicaSpecs:"),
			[]string{"spec.replicaSpecs is now spec.tfReplicaSpecs, a map from Chief, Worker and PS"},
		},
		{
			"an unknown field of the run policy", with(t, mnist, "  tfReplicaSpecs:", "  runPolicy: {cleanupPolicy: All}\n  tfReplicaSpecs:"),
			[]string{"spec.runPolicy.cleanupPolicy is not a field"},
		},
		{
			"an unknown field of a pod template", with(t, mnist, "        spec:\n          containers:", "        spec:\n          imagePullSecret: x\n          containers:"),
			[]string{"spec.tfReplicaSpecs.PS.template.spec.imagePullSecret is not a field"},
		},
		{
			"an unknown field of a container", with(t, mnist, "image: example/dist-mnist:1.0", "image: example/dist-mnist:1.0\n            cmd: [x]"),
			[]string{"spec.tfReplicaSpecs.PS.template.spec.containers[0].cmd is not a field"},
		},
		{
			"what is no pod at all", with(t, mnist, "          containers:\n          - name: tensorflow\n            image: example/dist-mnist:1.0\n    Worker", "          containers: none\n    Worker"),
			[]string{"spec.tfReplicaSpecs.PS cannot be read: "},
		},
		{
			"an unknown replica type", with(t, mnist, one, "tfReplicaSpecs:\n    Launcher:"),
			[]string{"spec.tfReplicaSpecs.Launcher: a TFJob has no such replica type; it has Chief, Master, Worker, PS, Evaluator"},
		},
		{"a replica type in another case", with(t, mnist, one, "tfReplicaSpecs:\n    ps:"), nil},
		{
			"a replica type twice", with(t, mnist, one, "tfReplicaSpecs:\n    worker:"),
			[]string{"spec.tfReplicaSpecs.Worker and spec.tfReplicaSpecs.worker are the same replica type"},
		},
		{
			"a container by another name", with(t, send, "name: pytorch, image", "name: main, image"),
			[]string{"spec.pytorchReplicaSpecs.Master.template.spec.containers: none is called pytorch"},
		},
		{
			"no image", with(t, send, `, image: "example/send:1.0"`, ""),
			[]string{"spec.pytorchReplicaSpecs.Master.template.spec.containers: pytorch has no image"},
		},
		{
			"two masters", with(t, send, "replicas: 1", "replicas: 2"),
			[]string{"spec.pytorchReplicaSpecs.Master.replicas is 2: there can be one"},
		},
		{
			"chief and master", with(t, with(t, with(t, mnist, one, "tfReplicaSpecs:\n    Chief:"), "replicas: 2", "replicas: 1"), "    Worker:\n      replicas: 4", "    Master:\n      replicas: 1"),
			[]string{"spec.tfReplicaSpecs.Chief and spec.tfReplicaSpecs.Master are two names"},
		},
		{
			"no replicas", with(t, with(t, send, "replicas: 1", "replicas: 0"), "replicas: 3", "replicas: 0"),
			[]string{"spec.pytorchReplicaSpecs has no replicas"},
		},
		{
			"a node", with(t, send, "{spec: {containers", "{spec: {nodeName: gpu1, containers"),
			[]string{"spec.pytorchReplicaSpecs.Master.template.spec.nodeName: Muster chooses the nodes"},
		},
		{
			"elastic without workers", with(t, with(t, send, "replicas: 3", "replicas: 0"), "spec:\n  pytorch", "spec:\n  elasticPolicy: {maxReplicas: 3}\n  pytorch"),
			[]string{"spec.elasticPolicy is for workers"},
		}, {
			"a minimum above the maximum", with(t, send, "spec:\n  pytorch", "spec:\n  elasticPolicy: {minReplicas: 4, maxReplicas: 2}\n  pytorch"),
			[]string{"spec.elasticPolicy.minReplicas is 4 and maxReplicas is 2"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := read(t, tt.text).problems
			if len(got) != len(tt.want) {
				t.Fatalf("problems %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("%q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

func TestNotes(t *testing.T) {
	text := with(t, send, "spec:\n  pytorch", `spec:
  runPolicy: {schedulingPolicy: {minAvailable: 2, scheduleTimeoutSeconds: 60, queue: q, minResources: {cpu: 4}}}
  elasticPolicy: {maxReplicas: 4, metrics: [{type: Resource}]}
  pytorch`)
	text = with(t, text, "{spec: {containers", "{spec: {schedulerName: volcano, containers")
	want := []string{
		"spec.pytorchReplicaSpecs.Master.template.spec.schedulerName",
		"spec.runPolicy.schedulingPolicy.minAvailable (all replicas start together)",
		"spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds (it waits for as long as it takes)",
		"spec.elasticPolicy.metrics (the number of replicas stays as it is)",
	}
	j := read(t, text)
	if diff := cmp.Diff(want, j.notes); diff != "" || len(j.problems) > 0 {
		t.Errorf("problems %q, notes (-want +got):\n%s", j.problems, diff)
	}
}
