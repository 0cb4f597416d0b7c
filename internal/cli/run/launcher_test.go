package run

import (
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestLaunchers: run advises against launchers that do not work in members.
func TestLaunchers(t *testing.T) {
	for _, c := range []struct {
		nodes   int
		command string
		says    string
	}{
		{1, "deepspeed --num_gpus 2 train.py", "counts the machine's GPUs from 0"},
		{1, "deepspeed --include=localhost:1 train.py", "counts the machine's GPUs from 0"},
		{2, "deepspeed train.py", "no SSH server"},
		{1, "vllm serve m", "env -u CUDA_VISIBLE_DEVICES vllm serve"},
		{1, "/opt/env/bin/deepspeed train.py", "let torchrun start the script"},
		{1, "mpirun -np 4 python train.py", ""},
		{2, "mpirun -np 4 python train.py", "no SSH server"},
		{2, "horovodrun -np 4 python train.py", "horovodrun starts in every member"},
		{1, "torchrun --standalone train.py", ""},
		{2, "torchrun --standalone train.py", "leave --standalone out"},
		{2, "torchrun --rdzv-backend=c10d train.py", ""},
		{2, "python deepspeed.py", ""},
	} {
		job, err := Build(Flags{Nodes: pointer(c.nodes), Command: strings.Fields(c.command)}, Inputs{Folder: "f", Suffix: "abcde"})
		if err != nil {
			t.Fatal(err)
		}
		if says := launcherAdvice(&job.Spec, true); (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
			t.Errorf("%d x %s: %q, want %q", c.nodes, c.command, says, c.says)
		}
		if slices.Contains(numberReaders, path.Base(strings.Fields(c.command)[0])) && c.nodes == 1 {
			if says := launcherAdvice(&job.Spec, false); says != "" {
				t.Errorf("%s works with numbers; it says %q", c.command, says)
			}
		}
	}
}

// TestTellsUUIDs: members that run in the plain tier, and not in an image, get UUIDs.
func TestTellsUUIDs(t *testing.T) {
	node := func(inventory string) client.Reader {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{v1alpha1.AnnotationInventory: inventory}}}
		return fake.NewClientBuilder().WithObjects(n).Build()
	}
	const plain, isolated, none = `{"hostPorts":{"first":20000,"last":29999}}`, `{"gpus":[]}`, ""
	for _, c := range []struct {
		inventory, image, command string
		want                      bool
	}{
		{plain, "", "deepspeed train.py", true},
		{plain, "", "/opt/bin/vllm serve m", true},
		{plain, "", "torchrun train.py", false},
		{plain, "vllm/vllm-openai:v0.9", "vllm serve m", false},
		{isolated, "", "deepspeed train.py", false},
		{none, "", "deepspeed train.py", false},
	} {
		job, err := Build(Flags{Image: c.image, Command: strings.Fields(c.command)}, Inputs{Folder: "f", Suffix: "abcde"})
		if err != nil {
			t.Fatal(err)
		}
		if got := tellsUUIDs(t.Context(), node(c.inventory), &job.Spec); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestTorchAlone: torchrun in a job of one member gets the number of its GPUs.
func TestTorchAlone(t *testing.T) {
	for command, want := range map[string]v1alpha1.Framework{
		"torchrun train.py":                            v1alpha1.FrameworkPyTorch,
		"/opt/env/bin/torchrun --standalone train.py":  v1alpha1.FrameworkPyTorch,
		"python -m torch.distributed.run train.py":     v1alpha1.FrameworkPyTorch,
		"python3 -m torch.distributed.launch train.py": v1alpha1.FrameworkPyTorch,
		"python -m torch.utils.collect_env":            v1alpha1.FrameworkNone,
		"python train.py --launcher torchrun":          v1alpha1.FrameworkNone,
	} {
		job, err := Build(Flags{GPUs: "2", Command: strings.Fields(command)}, Inputs{Folder: "f", Suffix: "abcde"})
		if err != nil {
			t.Fatal(err)
		}
		if job.Spec.Framework != want || len(job.Spec.Roles) != 1 || *job.Spec.Roles[0].Replicas != 1 {
			t.Errorf("%s: %s, %+v", command, job.Spec.Framework, job.Spec.Roles)
		}
	}
	job, err := Build(Flags{Framework: "none", Command: []string{"torchrun", "train.py"}}, Inputs{Folder: "f", Suffix: "abcde"})
	if err != nil || job.Spec.Framework != v1alpha1.FrameworkNone {
		t.Errorf("--framework none: %+v, %v", job, err)
	}
}
