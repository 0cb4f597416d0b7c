package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func inputs() Inputs {
	return Inputs{
		Namespace: "default", Folder: "My Project", Snapshot: digest, Suffix: "x7k2p",
		Getenv: func(name string) (string, bool) { return "$(secret)", name == "TOKEN" },
	}
}

func pointer[T any](value T) *T { return &value }

// spec is what a test looks at: everything but what is always the same.
func build(t *testing.T, flags Flags, in Inputs) *v1alpha1.TrainingJob {
	t.Helper()
	job, err := Build(flags, in)
	if err != nil {
		t.Fatalf("Build: %v", err)
	}
	return job
}

var train = []string{"python", "train.py"}

func TestRoles(t *testing.T) {
	two := resource.MustParse("2")
	for _, test := range []struct {
		name      string
		flags     Flags
		framework v1alpha1.Framework
		roles     []v1alpha1.Role
	}{
		{"one member", Flags{GPUs: "2"}, v1alpha1.FrameworkNone,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(1)), GPUs: &two, RestartPolicy: v1alpha1.RestartNever}}},
		{"one member that may be restarted", Flags{BackoffLimit: pointer(3)}, v1alpha1.FrameworkNone,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(1))}}},
		{"workers and parameter servers", Flags{Workers: pointer(3), PS: pointer(2), GPUs: "A100,H100:2"}, v1alpha1.FrameworkTensorFlow,
			[]v1alpha1.Role{
				{Name: "worker", Replicas: pointer(int32(3)), GPUs: &two, GPUModels: []string{"A100", "H100"}},
				{Name: "ps", Replicas: pointer(int32(2))},
			}},
		{"all roles", Flags{Workers: pointer(1), PS: pointer(1), Chief: true, Evaluator: true, GPUs: "2"}, v1alpha1.FrameworkTensorFlow,
			[]v1alpha1.Role{
				{Name: "chief", Replicas: pointer(int32(1)), GPUs: &two},
				{Name: "worker", Replicas: pointer(int32(1)), GPUs: &two},
				{Name: "ps", Replicas: pointer(int32(1))},
				{Name: "evaluator", Replicas: pointer(int32(1))},
			}},
		{"no ps after all", Flags{Workers: pointer(2), PS: pointer(0)}, v1alpha1.FrameworkTensorFlow,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(2))}}},
		{"nodes", Flags{Nodes: pointer(4), GPUs: "2"}, v1alpha1.FrameworkPyTorch,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(4)), GPUs: &two}}},
		{"nodes of something else", Flags{Nodes: pointer(4), Framework: "tf"}, v1alpha1.FrameworkTensorFlow,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(4))}}},
		{"no GPU", Flags{GPUs: "0", BackoffLimit: pointer(0)}, v1alpha1.FrameworkNone,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(1))}}},
		{"cpus and memory", Flags{Workers: pointer(2), CPUs: "4", Memory: "16Gi"}, v1alpha1.FrameworkTensorFlow,
			[]v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(2)), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
			}}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.flags.Command = train
			for i := range test.roles {
				test.roles[i].Command = train
			}
			job := build(t, test.flags, inputs())
			if diff := cmp.Diff(test.roles, job.Spec.Roles); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
			if job.Spec.Framework != test.framework {
				t.Errorf("framework %s, want %s", job.Spec.Framework, test.framework)
			}
		})
	}
}

func TestProgramAndCode(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags Flags
		in    func(*Inputs)
		role  v1alpha1.Role
		code  *v1alpha1.Code
	}{
		{"command", Flags{Command: []string{"make", "train"}}, nil,
			v1alpha1.Role{Command: []string{"make", "train"}}, &v1alpha1.Code{Snapshot: digest}},
		{"command without code", Flags{Command: []string{"nvidia-smi"}}, func(in *Inputs) { in.Snapshot = "" },
			v1alpha1.Role{Command: []string{"nvidia-smi"}}, nil},
		{"script", Flags{Script: "src/train.py", Command: []string{"--lr", "1"}}, func(in *Inputs) { in.Script = "train.py" },
			v1alpha1.Role{Script: "train.py", Args: []string{"--lr", "1"}}, &v1alpha1.Code{Snapshot: digest}},
		{"shell script", Flags{Script: "go.sh"}, func(in *Inputs) { in.Script = "go.sh" },
			v1alpha1.Role{Command: []string{"sh", "go.sh"}}, &v1alpha1.Code{Snapshot: digest}},
		{"URL", Flags{Script: "https://example.com/a/train.py?raw=1"}, func(in *Inputs) { in.Snapshot = "" },
			v1alpha1.Role{Script: "train.py"}, &v1alpha1.Code{URL: "https://example.com/a/train.py?raw=1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := inputs()
			if test.in != nil {
				test.in(&in)
			}
			job := build(t, test.flags, in)
			role := job.Spec.Roles[0]
			got := v1alpha1.Role{Command: role.Command, Script: role.Script, Args: role.Args}
			if diff := cmp.Diff(test.role, got); diff != "" {
				t.Errorf("role (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.code, job.Spec.Code); diff != "" {
				t.Errorf("code (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEverythingElse(t *testing.T) {
	in := inputs()
	in.Requirements, in.Submitter = "numpy\n", "ada@box"
	job := build(t, Flags{
		Name: "mnist", Command: train, Python: "3.11", Queue: "vision", MaxTime: "1d2h", Checkpoints: "saved", BackoffLimit: pointer(2),
		Volumes: []string{"10Gi:/data", "datasets:/mnt/data:ro"}, Env: []string{"A=b=c", "TOKEN"},
	}, in)
	size := resource.MustParse("10Gi")
	want := v1alpha1.TrainingJobSpec{
		Framework: v1alpha1.FrameworkNone,
		Roles:     []v1alpha1.Role{{Name: "worker", Replicas: pointer(int32(1)), Command: train}},
		Code:      &v1alpha1.Code{Snapshot: digest},
		Environment: &v1alpha1.Environment{
			Requirements: "numpy\n", Python: "3.11",
		},
		Volumes: []v1alpha1.JobVolume{
			{Name: "data", Size: &size, MountPath: "/data"},
			{Name: "data-2", Claim: "datasets", MountPath: "/mnt/data", ReadOnly: true},
		},
		Env:                   []corev1.EnvVar{{Name: "A", Value: "b=c"}, {Name: "TOKEN", Value: "$$(secret)"}},
		Queue:                 "vision",
		Checkpoints:           &v1alpha1.Checkpoints{Claim: "saved"},
		ActiveDeadlineSeconds: pointer(int64(26 * 3600)),
		BackoffLimit:          pointer(int32(2)),
	}
	if diff := cmp.Diff(want, job.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if job.Name != "mnist" || job.Annotations[v1alpha1.AnnotationSubmitter] != "ada@box" {
		t.Errorf("metadata %v", job.ObjectMeta)
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct {
		flags Flags
		want  string
	}{
		{Flags{Command: train}, "train-x7k2p"},
		{Flags{Command: []string{"python3", "-u", "src/My_Model.py"}}, "my-model-x7k2p"},
		{Flags{Command: []string{"make"}}, "my-project-x7k2p"},
		{Flags{Command: []string{"python", "-m", "trainer.py"}}, "my-project-x7k2p"},
		{Flags{Script: "https://example.com/9lives.py?x=/y"}, "job-9lives-x7k2p"},
		{Flags{Command: []string{"python", strings.Repeat("long", 30) + ".py"}}, strings.Repeat("long", 30)[:42] + "-x7k2p"},
		{Flags{Command: []string{"python", "größe.py"}}, "gr-e-x7k2p"},
	} {
		job := build(t, test.flags, inputs())
		if job.Name != test.want {
			t.Errorf("name of %v%s: %s, want %s", test.flags.Command, test.flags.Script, job.Name, test.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		flags Flags
		want  string
	}{
		{Flags{PS: pointer(2)}, "--ps 2 without workers"},
		{Flags{Nodes: pointer(2), Workers: pointer(2)}, "give one"},
		{Flags{Nodes: pointer(2), Chief: true}, "go with --workers"},
		{Flags{Evaluator: true}, "--evaluator without workers"},
		{Flags{Python: "/venv", Image: "x"}, "--python and --image are two environments"},
		{Flags{Python: "/venv", Requirements: "r.txt"}, "--python 3.11, the version"},
		{Flags{Workers: pointer(-1)}, "--workers -1: give a whole number from 0 to 1000"},
		{Flags{Workers: pointer(0)}, "at least one worker"},
		{Flags{Nodes: pointer(0)}, "--nodes 0: give a whole number from 1 to 1000"},
		{Flags{Workers: pointer(1), PS: pointer(5000)}, "--ps 5000"},
		{Flags{BackoffLimit: pointer(-1)}, "--backoff-limit -1"},
		{Flags{GPUs: "two"}, "--gpus two: give a number of GPUs"},
		{Flags{GPUs: "TITAN"}, "--gpus TITAN: give a number of GPUs"},
		{Flags{GPUs: "1g5"}, "--gpus 1g5: give a number of GPUs"},
		{Flags{GPUs: "H100:-1"}, "--gpus H100:-1: the number of GPUs of each member is from 0 to 1024"},
		{Flags{GPUs: "-1"}, "from 0 to 1024"},
		{Flags{GPUs: "1500m"}, "--gpus 1500m: a share is below one GPU, such as 250m or 0.25, or ask for whole GPUs, such as 2"},
		{Flags{GPUs: "A100:1.5"}, "--gpus A100:1.5: a share is below one GPU"},
		{Flags{GPUs: "0.0005"}, "--gpus 0.0005: a share is in thousandths"},
		{Flags{GPUs: "0m"}, "--gpus 0m: a share is from 1m to 999m"},
		{Flags{GPUs: "1/4"}, "--gpus 1/4: give a number of GPUs, such as 1 or 2, a share of one"},
		{Flags{GPUMemory: "much"}, "--gpu-memory much: give an amount"},
		{Flags{GPUMemory: "8"}, "--gpu-memory 8: that is 8 bytes"},
		{Flags{GPUMemory: "5Ti"}, "--gpu-memory 5Ti: no GPU has so much"},
		{Flags{GPUs: "1", GPUMemory: "8Gi"}, "--gpus 1 with --gpu-memory 8Gi"},
		{Flags{GPUs: ":2"}, "give models and a number"},
		{Flags{GPUs: "H100:0"}, "makes no sense"},
		{Flags{GPUs: "2000000000000000000000"}, "--gpus 2000000000000000000000"},
		{Flags{CPUs: "many"}, "--cpus many: give an amount such as 4"},
		{Flags{Memory: "-1Gi"}, "--memory -1Gi: give more than nothing"},
		{Flags{Framework: "TensorFlo"}, "did you mean TensorFlow?"},
		{Flags{Framework: "jax"}, "there is TensorFlow, PyTorch and None"},
		{Flags{Name: "My Job"}, "how about my-job?"},
		{Flags{Name: strings.Repeat("a", 49)}, "49 characters and may have at most 48"},
		{Flags{Volumes: []string{"/data"}}, "give SIZE:PATH"},
		{Flags{Volumes: []string{"0:/data"}}, "above 0"},
		{Flags{Volumes: []string{"Not_A_Claim:/data"}}, "neither a size"},
		{Flags{Volumes: []string{"1Gi:/data", "2Gi:/data/"}}, "mounted twice"},
		{Flags{Env: []string{"=x"}}, "give NAME=VALUE"},
		{Flags{Env: []string{"ABSENT"}}, "no such variable"},
		{Flags{Env: []string{"PIP_EXTRA_INDEX_URL=https://ada:geheim@packages.test/simple"}}, "https://****@packages.test/simple\" has a user or password in it"},
		{Flags{MaxTime: "soon"}, "give a duration such as 90m"},
		{Flags{MaxTime: "0s"}, "at least one second"},
		{Flags{MaxTime: "-1d"}, "at least one second"},
		{Flags{MaxTime: "-1d48h"}, "at least one second"},
		{Flags{Expect: "soon"}, "--expect soon: give a duration such as 90m"},
		{Flags{Expect: "500ms"}, "--expect 500ms: give at least one second"},
		{Flags{Expect: "5000d"}, "--expect 5000d: give at most 4166 days"},
		{Flags{Expect: "5h", MaxTime: "4h"}, "stopped before it is expected to end"},
		{Flags{Checkpoints: "A_B"}, "--checkpoints A_B"},
		{Flags{Checkpoints: "0"}, "give a size above 0"},
		{Flags{Script: "https://example.com/"}, "names no file"},
		{Flags{Script: "https://example.com/a.py", Code: "."}, "all the code there is"},
	} {
		t.Run(test.want, func(t *testing.T) {
			if test.flags.Script == "" {
				test.flags.Command = train
			}
			_, err := Build(test.flags, inputs())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			if code, _ := exit.Of(err); code != exit.Misuse {
				t.Errorf("exit code %d, want %d", code, exit.Misuse)
			}
		})
	}
	for _, command := range [][]string{nil, {""}, {"  ", "x"}} {
		if _, err := Build(Flags{Command: command}, inputs()); err == nil || !strings.Contains(err.Error(), "nothing to run") {
			t.Errorf("command %q: error %v", command, err)
		}
	}
}

// What --dry-run prints, read back, is the job.
func TestManifestRoundTrip(t *testing.T) {
	in := inputs()
	in.Requirements = "numpy\n# a comment\n"
	job := build(t, Flags{
		Name: "mnist", Command: []string{"python", "old.py", "--ps_hosts=$(PS_HOSTS)"}, Workers: pointer(3), PS: pointer(2), GPUs: "A100:2",
		CPUs: "500m", Memory: "16Gi", Volumes: []string{"10Gi:/data"}, MaxTime: "4h", Env: []string{"EMPTY="},
	}, in)
	tree, err := output.Manifest(job)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.TrainingJob
	if err := yaml.UnmarshalStrict(text, &back); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if diff := cmp.Diff(job, &back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s\n%s", diff, text)
	}
	for _, unwanted := range []string{"status", "null", "creationTimestamp", "{}"} {
		if strings.Contains(string(text), unwanted) {
			t.Errorf("the manifest says %q:\n%s", unwanted, text)
		}
	}
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		name         string
		flags        Flags
		gpus, memory string
		models       []string
	}{
		{"thousandths", Flags{GPUs: "250m"}, "250m", "", nil},
		{"a fraction", Flags{GPUs: "0.25"}, "250m", "", nil},
		{"without a nought", Flags{GPUs: ".5"}, "500m", "", nil},
		{"of a model", Flags{GPUs: "A100,H100:125m"}, "125m", "", []string{"A100", "H100"}},
		{"a whole in thousandths", Flags{GPUs: "1000m"}, "1", "", nil},
		{"memory", Flags{GPUMemory: "8Gi"}, "", "8Gi", nil},
		{"both", Flags{GPUs: "250m", GPUMemory: "8Gi"}, "250m", "8Gi", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.flags.Command, c.flags.Workers, c.flags.PS = train, pointer(1), pointer(1)
			job, err := Build(c.flags, inputs())
			if err != nil {
				t.Fatal(err)
			}
			text := func(q *resource.Quantity) string {
				if q == nil {
					return ""
				}
				return q.String()
			}
			worker, ps := job.Spec.Roles[0], job.Spec.Roles[1]
			if text(worker.GPUs) != c.gpus || text(worker.GPUMemory) != c.memory || !slices.Equal(worker.GPUModels, c.models) {
				t.Errorf("got %s, %s of %v", text(worker.GPUs), text(worker.GPUMemory), worker.GPUModels)
			}
			if ps.GPUs != nil || ps.GPUMemory != nil {
				t.Error("the parameter server gets a part of a GPU")
			}
		})
	}
}

// A model alone is one GPU of it.
func TestAModelAlone(t *testing.T) {
	for text, want := range map[string][]string{"B200": {"B200"}, "A100,H100": {"A100", "H100"}, "RTX-4090": {"RTX-4090"}} {
		gpus, models, err := parseGPUs(text)
		if err != nil || gpus == nil || gpus.Value() != 1 || !slices.Equal(models, want) {
			t.Errorf("--gpus %s: %v of %q: %v", text, gpus, models, err)
		}
	}
}
