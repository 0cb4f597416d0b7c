package kubeflow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestTFJobBecomesATrainingJob(t *testing.T) {
	j := read(t, mnist)
	got := j.trainingJob()
	if got.Name != "mnist" || got.Namespace != "vision" || !metav1.IsControlledBy(got, j) || got.OwnerReferences[0].Kind != "TFJob" || got.OwnerReferences[0].APIVersion != "kubeflow.org/v1" {
		t.Errorf("%+v", got.ObjectMeta)
	}
	s := got.Spec
	if s.Framework != v1alpha1.FrameworkTensorFlow || s.CleanUp != v1alpha1.CleanUpRunning || !s.Checkpoints.None || *s.BackoffLimit != 6 || s.Suspend || s.Queue != "" {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]string{"worker/0"}, s.DoneWhen); diff != "" {
		t.Error(diff)
	}
	worker, ps := s.Roles[0], s.Roles[1]
	if worker.Name != "worker" || *worker.Replicas != 4 || ps.Name != "ps" || *ps.Replicas != 2 || worker.RestartPolicy != v1alpha1.RestartNever {
		t.Errorf("%+v", s.Roles)
	}
	want := map[string]string{
		"training.kubeflow.org/job-name": "mnist", "training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/replica-type": "worker",
	}
	if diff := cmp.Diff(want, worker.Template.Labels) + cmp.Diff([]string{"training.kubeflow.org/replica-index"}, worker.IndexLabels) +
		cmp.Diff(map[string]string{"training.kubeflow.org/job-role": "master"}, worker.FirstLabels) +
		cmp.Diff(map[string]string{"sidecar.istio.io/inject": "false"}, worker.Template.Annotations); diff != "" || ps.FirstLabels != nil {
		t.Errorf("labels and annotations (-want +got):\n%s; ps %v", diff, ps.FirstLabels)
	}
	main := worker.Template.Spec.Containers[0]
	if gpus := main.Resources.Limits[v1alpha1.ResourceGPU]; gpus.Value() != 1 || main.Image != "example/dist-mnist:1.0" || worker.PortName != "tfjob-port" {
		t.Errorf("%+v", main)
	}
	if diff := cmp.Diff([]corev1.ContainerPort{{Name: "tfjob-port", ContainerPort: 2222}}, main.Ports); diff != "" {
		t.Error(diff)
	}
}

// Who submitted a job, and that the API server says so, stays with what it
// becomes: else one person would be two before a queue.
func TestTheSubmitterStays(t *testing.T) {
	j := read(t, mnist)
	stamps := map[string]string{v1alpha1.AnnotationSubmitter: "ada@example.com", v1alpha1.AnnotationAuthenticated: "true"}
	j.SetAnnotations(stamps)
	got := j.trainingJob().Annotations
	delete(got, AnnotationSpec)
	if diff := cmp.Diff(stamps, got); diff != "" {
		t.Errorf("(-said +passed on):\n%s", diff)
	}
}

func TestSuccessAndFramework(t *testing.T) {
	chief := with(t, mnist, "    PS:\n      replicas: 2", "    Chief:\n      replicas: 1")
	alone := with(t, with(t, mnist, "replicas: 4", "replicas: 1"), "replicas: 2", "replicas: 0")
	tests := []struct {
		name, text string
		framework  v1alpha1.Framework
		done       string
		// master is the role of the pod that carries the label master.
		master string
	}{
		{"worker 0", mnist, v1alpha1.FrameworkTensorFlow, "worker/0", "worker"},
		{"all workers", with(t, mnist, "spec:\n", "spec:\n  successPolicy: AllWorkers\n"), v1alpha1.FrameworkTensorFlow, "worker", "worker"},
		{"the chief", chief, v1alpha1.FrameworkTensorFlow, "chief", "chief"},
		{"the chief, whatever the policy", with(t, chief, "spec:\n", "spec:\n  successPolicy: AllWorkers\n"), v1alpha1.FrameworkTensorFlow, "chief", "chief"},
		{"one replica needs no TF_CONFIG", alone, v1alpha1.FrameworkNone, "worker/0", "worker"},
		{"the master", send, v1alpha1.FrameworkPyTorch, "master", "master"},
		{"every worker of a PyTorchJob", with(t, send, "replicas: 1", "replicas: 0"), v1alpha1.FrameworkPyTorch, "worker", ""},
		{"parameter servers alone", with(t, mnist, "replicas: 4", "replicas: 0"), v1alpha1.FrameworkTensorFlow, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := read(t, tt.text).trainingJob().Spec
			if s.Framework != tt.framework || strings.Join(s.DoneWhen, " ") != tt.done {
				t.Errorf("framework %s, done when %q; want %s, %q", s.Framework, s.DoneWhen, tt.framework, tt.done)
			}
			master := ""
			for _, r := range s.Roles {
				if r.FirstLabels["training.kubeflow.org/job-role"] == "master" {
					master += r.Name
				}
			}
			if master != tt.master {
				t.Errorf("the master is %q, want %q", master, tt.master)
			}
		})
	}
}

func TestRunPolicy(t *testing.T) {
	tests := []struct {
		name, policy, labels string
		check                func(v1alpha1.TrainingJobSpec) bool
	}{
		{"clean up all", "cleanPodPolicy: All", "", func(s v1alpha1.TrainingJobSpec) bool { return s.CleanUp == v1alpha1.CleanUpAll }},
		{"clean up none", "cleanPodPolicy: None", "", func(s v1alpha1.TrainingJobSpec) bool { return s.CleanUp == v1alpha1.CleanUpNone }},
		{"clean up what runs", "cleanPodPolicy: Running", "", func(s v1alpha1.TrainingJobSpec) bool { return s.CleanUp == v1alpha1.CleanUpRunning }},
		{"backoff limit", "backoffLimit: 0", "", func(s v1alpha1.TrainingJobSpec) bool { return *s.BackoffLimit == 0 }},
		{"deadline", "activeDeadlineSeconds: 60", "", func(s v1alpha1.TrainingJobSpec) bool { return *s.ActiveDeadlineSeconds == 60 }},
		{"the time to live is not the TrainingJob's", "ttlSecondsAfterFinished: 60", "", func(s v1alpha1.TrainingJobSpec) bool { return s.TTLSecondsAfterFinished == nil }},
		{"suspend", "suspend: true", "", func(s v1alpha1.TrainingJobSpec) bool { return s.Suspend }},
		{"queue", "schedulingPolicy: {queue: nlp}", "", func(s v1alpha1.TrainingJobSpec) bool { return s.Queue == "nlp" }},
		{"queue by Kueue's label", "schedulingPolicy: {queue: nlp}", "kueue.x-k8s.io/queue-name: cv", func(s v1alpha1.TrainingJobSpec) bool { return s.Queue == "cv" }},
		{"queue by Muster's label", "schedulingPolicy: {queue: nlp}", "kueue.x-k8s.io/queue-name: cv, muster.dev/queue: speech", func(s v1alpha1.TrainingJobSpec) bool { return s.Queue == "speech" }},
		{"priority", "schedulingPolicy: {priorityClass: high}", "", func(s v1alpha1.TrainingJobSpec) bool { return s.PriorityClassName == "high" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := with(t, mnist, "spec:\n", "spec:\n  runPolicy: {"+tt.policy+"}\n")
			text = with(t, text, "namespace: vision", "namespace: vision, labels: {"+tt.labels+"}")
			j := read(t, text)
			if len(j.problems) > 0 {
				t.Fatal(j.problems)
			}
			if s := j.trainingJob().Spec; !tt.check(s) {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestRestartPolicies(t *testing.T) {
	for policy, want := range map[string]v1alpha1.RestartPolicy{
		"restartPolicy: Always": v1alpha1.RestartOnFailure, "restartPolicy: OnFailure": v1alpha1.RestartOnFailure,
		"restartPolicy: ExitCode": v1alpha1.RestartExitCode, "restartPolicy: Never": v1alpha1.RestartNever,
		"replicas: 2": v1alpha1.RestartNever, // none is given
	} {
		if got := read(t, with(t, mnist, "restartPolicy: Never", policy)).trainingJob().Spec.Roles[1].RestartPolicy; got != want {
			t.Errorf("%s of a TFJob: %s, want %s", policy, got, want)
		}
	}
	if got := read(t, send).trainingJob().Spec.Roles[1].RestartPolicy; got != v1alpha1.RestartOnFailure {
		t.Errorf("none of a PyTorchJob: %s", got)
	}
}

// TestTemplateIsKept passes on everything that a pod may carry, with the
// container that trains first.
func TestTemplateIsKept(t *testing.T) {
	text := with(t, send, `{spec: {containers: [{name: pytorch, image: "example/send:1.0"}]}}`, `
        metadata: {labels: {team: vision}}
        spec:
          serviceAccountName: trainer
          priorityClassName: high
          nodeSelector: {disk: ssd}
          tolerations: [{key: gpu, operator: Exists}]
          affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
          imagePullSecrets: [{name: registry}]
          initContainers: [{name: fetch, image: "example/fetch:1.0"}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
          containers:
          - {name: proxy, image: "example/proxy:1.0"}
          - name: pytorch
            image: example/send:1.0
            command: [python, train.py]
            args: [--backend, gloo]
            env: [{name: WORLD_SIZE, value: "7"}]
            ports: [{name: pytorchjob-port, containerPort: 3333}]
            volumeMounts: [{name: data, mountPath: /data}]`)
	j := read(t, text)
	if len(j.problems) > 0 {
		t.Fatal(j.problems)
	}
	s := j.trainingJob().Spec.Roles[0].Template.Spec
	if len(s.Containers) != 2 || s.Containers[0].Name != "pytorch" || s.Containers[1].Name != "proxy" {
		t.Fatalf("containers %+v", s.Containers)
	}
	yes := true
	want := corev1.Container{
		Name: "pytorch", Image: "example/send:1.0", Command: []string{"python", "train.py"}, Args: []string{"--backend", "gloo"},
		Env: []corev1.EnvVar{{Name: "WORLD_SIZE", Value: "7"}}, Ports: []corev1.ContainerPort{{Name: "pytorchjob-port", ContainerPort: 3333}},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}
	if diff := cmp.Diff(want, s.Containers[0]) + cmp.Diff(&yes, s.AutomountServiceAccountToken) + cmp.Diff(&yes, s.EnableServiceLinks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.ServiceAccountName != "trainer" || s.PriorityClassName != "high" || s.NodeSelector["disk"] != "ssd" || len(s.Tolerations) != 1 || s.Affinity == nil ||
		len(s.ImagePullSecrets) != 1 || len(s.InitContainers) != 1 || len(s.Volumes) != 1 || j.trainingJob().Spec.Roles[0].Template.Labels["team"] != "vision" {
		t.Errorf("%+v", s)
	}
	if service := j.service(j.replicas[0], 0); service.Spec.Ports[0].Port != 3333 {
		t.Errorf("the service is for port %d", service.Spec.Ports[0].Port)
	}
}

func TestServices(t *testing.T) {
	j := read(t, send)
	s := j.service(j.replicas[1], 2)
	want := map[string]string{"muster.dev/gang": "send", "muster.dev/role": "worker", "muster.dev/index": "2"}
	if diff := cmp.Diff(want, s.Spec.Selector); diff != "" || s.Name != "send-worker-2" || s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses ||
		s.Labels["training.kubeflow.org/replica-index"] != "2" || s.Spec.Ports[0].Port != 23456 || !metav1.IsControlledBy(s, j) {
		t.Errorf("%+v, selector (-want +got):\n%s", s, diff)
	}
}

func TestVariables(t *testing.T) {
	tests := []struct {
		name, spec string
		want       string
	}{
		{"nothing", "", ""},
		{"auto", "nprocPerNode: auto", "PET_NPROC_PER_NODE=auto"},
		{"a number counts in the world", `nprocPerNode: "2"`, "PET_NPROC_PER_NODE=2 WORLD_SIZE=8"},
		{"the older field", "elasticPolicy: {nProcPerNode: 2}", "PET_NPROC_PER_NODE=2 WORLD_SIZE=8 PET_RDZV_BACKEND=c10d"},
		{"elastic", "elasticPolicy: {minReplicas: 1, maxReplicas: 4, maxRestarts: 3}", "PET_RDZV_BACKEND=c10d PET_NNODES=1:4 PET_MAX_RESTARTS=3"},
		{"a bound alone", "elasticPolicy: {minReplicas: 2}", "PET_RDZV_BACKEND=c10d PET_NNODES=2:4"},
		{"endpoint", "elasticPolicy: {rdzvHost: etcd, rdzvPort: 2379, rdzvBackend: etcd-v2}", "PET_RDZV_BACKEND=etcd-v2 PET_RDZV_ENDPOINT=etcd:2379"},
		{"port alone", "elasticPolicy: {rdzvPort: 29400}", "PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=$(MASTER_ADDR):29400"},
		{
			"the rest", "elasticPolicy: {rdzvId: a, rdzvConf: [{key: timeout, value: '9'}, {key: b, value: c}], standalone: true}",
			"PET_RDZV_BACKEND=c10d PET_RDZV_ID=a PET_RDZV_CONF=timeout=9,b=c PET_STANDALONE=",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := read(t, with(t, send, "spec:\n", "spec:\n  "+tt.spec+"\n"))
			if len(j.problems) > 0 {
				t.Fatal(j.problems)
			}
			var got []string
			for _, v := range j.trainingJob().Spec.Roles[1].Template.Spec.Containers[0].Env {
				got = append(got, v.Name+"="+v.Value)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
