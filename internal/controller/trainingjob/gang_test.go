package trainingjob

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestDoneWhen(t *testing.T) {
	for roles, want := range map[string]string{
		"chief worker ps":  "chief",
		"ps worker":        "worker",
		"worker evaluator": "worker",
		"ps":               "ps",
		"ps evaluator":     "ps evaluator",
		"trainer":          "trainer",
		"actor learner ps": "actor learner",
	} {
		j := newJob("a")
		for _, r := range strings.Fields(roles) {
			j = j.role(r, 1, "train.py")
		}
		if got := strings.Join(doneWhen(j.TrainingJob), " "); got != want {
			t.Errorf("%s: %s", roles, got)
		}
	}
}

// On a cluster each member has its own copy of the code, in a volume that counts as
// its pod's storage.
func TestTheCopyOfTheCode(t *testing.T) {
	for own, want := range map[bool]string{true: v1alpha1.CodeCopyVolume, false: ""} {
		gang := gangFor(newJob("mnist").role("worker", 1, "train.py").TrainingJob, preparation{code: digest, ownCode: own})
		spec := &gang.Spec.Roles[0].Template.Spec
		copied, there := "", false
		for i := range spec.Volumes {
			v := &spec.Volumes[i]
			if v.CSI != nil && v.CSI.Driver == v1alpha1.CodeDriver {
				copied = v.CSI.VolumeAttributes["copy"]
			}
			there = there || v.Name == v1alpha1.CodeCopyVolume && v.EmptyDir != nil
		}
		mounted := slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v1alpha1.CodeCopyVolume })
		if copied != want || there != own || mounted != own {
			t.Errorf("own %v: the copy is in %q, and there is such a volume: %v, mounted: %v", own, copied, there, mounted)
		}
	}
}

func TestGangOfATensorFlowJob(t *testing.T) {
	j := newJob("mnist").role("ps", 2, "ps.py").role("worker", 3, "train.py").with(func(s *v1alpha1.TrainingJobSpec) {
		s.Env = []corev1.EnvVar{{Name: "A", Value: "job"}, {Name: "B", Value: "job"}}
		s.Volumes = []v1alpha1.JobVolume{{Name: "data", Size: quantity("1Gi"), MountPath: "data/in"}, {Name: "shared", Claim: "team", MountPath: "/data", ReadOnly: true}}
		worker := &s.Roles[1]
		worker.Args = []string{"--epochs=2"}
		worker.GPUs, worker.GPUModels = quantity("2"), []string{"A100"}
		worker.Spread = &v1alpha1.Spread{Over: v1alpha1.LevelNode, Required: true}
		s.Topology = &v1alpha1.Topology{Within: v1alpha1.LevelRack}
		worker.Env = []corev1.EnvVar{{Name: "A", Value: "role"}}
		worker.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *quantity("4Gi")}
	})
	gang := gangFor(j.TrainingJob, preparation{code: digest, environment: "key"})
	if gang.Name != "mnist" || gang.Spec.Restart != v1alpha1.RestartScopeMember || gang.Spec.BackoffLimit != 6 || gang.Spec.Queue != "default" ||
		gang.Spec.Rendezvous != v1alpha1.FrameworkTensorFlow || gang.Labels[v1alpha1.LabelJob] != "mnist" || !belongs(j.TrainingJob, gang) {
		t.Errorf("%+v", gang)
	}
	worker := gang.Spec.Roles[1]
	if worker.Replicas != 3 || worker.GPUs.Value() != 2 || worker.GPUModels[0] != "A100" || worker.RestartPolicy != v1alpha1.RestartOnFailure {
		t.Errorf("%+v", worker)
	}
	if gang.Spec.Topology == nil || gang.Spec.Topology.Within != v1alpha1.LevelRack || worker.Spread == nil || !worker.Spread.Required || gang.Spec.Roles[0].Spread != nil {
		t.Errorf("within %+v, spread %+v and %+v", gang.Spec.Topology, worker.Spread, gang.Spec.Roles[0].Spread)
	}
	yes, no := true, false
	want := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: &no,
		Containers: []corev1.Container{{
			Name: "main", Image: "muster.dev/host", WorkingDir: "/muster/code",
			Command: []string{"python", "train.py"}, Args: []string{"--epochs=2"},
			Env: []corev1.EnvVar{
				{Name: "MUSTER_ROOT", Value: "/muster"},
				{Name: "MUSTER_JOB", Value: "mnist"},
				{Name: "MUSTER_CODE_DIR", Value: "$(MUSTER_ROOT)/code"},
				{Name: "MUSTER_CHECKPOINT_DIR", Value: "$(MUSTER_ROOT)/checkpoints"},
				{Name: "MUSTER_LOG_DIR", Value: "$(MUSTER_ROOT)/logs"},
				{Name: "MUSTER_PROGRESS", Value: "$(MUSTER_ROOT)/progress/report"},
				{Name: "PYTHONUNBUFFERED", Value: "1"},
				{Name: "B", Value: "job"},
				{Name: "A", Value: "role"},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: *quantity("100m")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: *quantity("4Gi")},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "muster-code", MountPath: "/muster/code"},
				{Name: "muster-env", MountPath: "/muster/env", ReadOnly: true},
				{Name: "muster-checkpoints", MountPath: "/muster/checkpoints", SubPath: "checkpoints"},
				{Name: "muster-checkpoints", MountPath: "/muster/logs", SubPath: "logs"},
				{Name: "muster-volume-data", MountPath: "/muster/code/data/in"},
				{Name: "muster-volume-shared", MountPath: "/data", ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "muster-code", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "code.muster.dev", ReadOnly: &no, VolumeAttributes: map[string]string{"snapshot": digest, "job": "uid-mnist"}}}},
			{Name: "muster-env", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "environment.muster.dev", ReadOnly: &yes, VolumeAttributes: map[string]string{"key": "key"}}}},
			{Name: "muster-checkpoints", VolumeSource: claimed("mnist-checkpoints", false)},
			{Name: "muster-volume-data", VolumeSource: claimed("mnist-data", false)},
			{Name: "muster-volume-shared", VolumeSource: claimed("team", true)},
		},
	}
	if diff := cmp.Diff(want, worker.Template.Spec); diff != "" {
		t.Error(diff)
	}
	if ps := gang.Spec.Roles[0].Template.Spec.Containers[0]; ps.Resources.Requests.Memory().String() != "128Mi" || ps.Command[1] != "ps.py" {
		t.Errorf("%+v", ps)
	}
}

func TestTemplateIsLaidUnder(t *testing.T) {
	grace := int64(5)
	j := newJob("a").role("worker", 1, "").with(func(s *v1alpha1.TrainingJobSpec) {
		s.Framework, s.Code = v1alpha1.FrameworkPyTorch, nil
		s.Environment = &v1alpha1.Environment{Image: "pytorch/pytorch:2"}
		s.Roles[0].Command = []string{"torchrun", "train.py"}
		s.Roles[0].Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			RestartPolicy:                 corev1.RestartPolicyAlways,
			Volumes:                       []corev1.Volume{{Name: "mine"}},
			Containers: []corev1.Container{{
				Name: "trainer", Image: "other", Args: []string{"dropped"}, WorkingDir: "/work",
				Env:       []corev1.EnvVar{{Name: "MUSTER_ROOT", Value: "/evil"}, {Name: "T", Value: "1"}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: *quantity("1"), corev1.ResourceCPU: *quantity("2")}},
			}, {Name: "side"}},
		}}
	})
	gang := gangFor(j.TrainingJob, preparation{})
	j.Spec.Restart = v1alpha1.RestartScopeMember
	if said := gangFor(j.TrainingJob, preparation{}).Spec.Restart; said != v1alpha1.RestartScopeMember {
		t.Errorf("said to start one member again, it starts the %s", said)
	}
	role := gang.Spec.Roles[0]
	pod := role.Template.Spec
	main := pod.Containers[0]
	if gang.Spec.Restart != v1alpha1.RestartScopeGang || role.GPUs.Value() != 1 {
		t.Errorf("%+v", role)
	}
	if main.Name != "trainer" || main.Image != "pytorch/pytorch:2" || main.WorkingDir != "/work" || len(main.Args) != 0 || main.Command[0] != "torchrun" {
		t.Errorf("%+v", main)
	}
	if main.Env[0].Value != "/muster" || main.Env[len(main.Env)-1].Name != "T" || len(main.Env) != 8 {
		t.Errorf("%+v", main.Env)
	}
	if _, ok := main.Resources.Limits[v1alpha1.ResourceGPU]; ok || main.Resources.Limits.Cpu().String() != "2" {
		t.Errorf("%+v", main.Resources)
	}
	if *pod.TerminationGracePeriodSeconds != 5 || pod.RestartPolicy != corev1.RestartPolicyNever || pod.Volumes[0].Name != "mine" || len(pod.Containers) != 2 {
		t.Errorf("%+v", pod)
	}
	if pod.Volumes[1].EmptyDir == nil {
		t.Errorf("no code, but %+v", pod.Volumes[1])
	}
	if role.Template.Spec.Containers[0].Env[0].Name != "MUSTER_ROOT" || j.Spec.Roles[0].Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Error("the job's own template was changed")
	}
}

func TestAJobThatKeepsNothing(t *testing.T) {
	j := newJob("a").role("worker", 1, "").with(func(s *v1alpha1.TrainingJobSpec) {
		s.Roles[0].Command = []string{"true"}
		s.Checkpoints = &v1alpha1.Checkpoints{None: true}
	})
	if claims := claimsOf(j.TrainingJob); len(claims) != 0 {
		t.Errorf("claims are made: %v", claims)
	}
	pod := gangFor(j.TrainingJob, preparation{}).Spec.Roles[0].Template.Spec
	for _, v := range pod.Volumes {
		if v.PersistentVolumeClaim != nil {
			t.Errorf("claim %s is mounted", v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, v := range pod.Containers[0].Env {
		if v.Name == "MUSTER_CHECKPOINT_DIR" || v.Name == "MUSTER_LOG_DIR" {
			t.Errorf("%s is set to %s, where nothing is kept", v.Name, v.Value)
		}
	}
}

// TestTheFirstProcess: a member alone in its pod is not process 1 of it where
// nodes would make it that; beside others, or where the template says so, the
// pod stays as it is.
func TestTheFirstProcess(t *testing.T) {
	no := false
	for _, test := range []struct {
		name     string
		asked    bool
		template *corev1.PodTemplateSpec
		want     bool
	}{
		{"not asked for", false, nil, false},
		{"alone", true, nil, true},
		{"with a sidecar", true, &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "side"}}}}, false},
		{"its owner says no", true, &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ShareProcessNamespace: &no}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob("a").role("worker", 1, "").with(func(s *v1alpha1.TrainingJobSpec) {
				s.Roles[0].Command, s.Roles[0].Template = []string{"true"}, test.template
			})
			pod := gangFor(j.TrainingJob, preparation{shareProcesses: test.asked}).Spec.Roles[0].Template.Spec
			if got := pod.ShareProcessNamespace != nil && *pod.ShareProcessNamespace; got != test.want {
				t.Errorf("shared processes: %t, want %t", got, test.want)
			}
		})
	}
}

// TestWhereMembersReport: where the node makes no folder for it the pod has one,
// and it is noted on the pod if nobody will look there.
func TestWhereMembersReport(t *testing.T) {
	own := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Volumes:    []corev1.Volume{{Name: "mine", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "mine", MountPath: "/muster/progress/"}}}},
	}}
	for _, test := range []struct {
		name     string
		to       Reports
		template *corev1.PodTemplateSpec
		volume   string
		unread   bool
	}{
		{"to a node of Muster's own", ReportsToNode, nil, "", false},
		{"to an agent", ReportsToAgent, nil, v1alpha1.ProgressVolume, false},
		{"to nobody", ReportsToNobody, nil, v1alpha1.ProgressVolume, true},
		{"to a volume of the user's", ReportsToAgent, own, "mine", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob("a").role("worker", 1, "").with(func(s *v1alpha1.TrainingJobSpec) {
				s.Roles[0].Command, s.Roles[0].Template = []string{"true"}, test.template
			})
			template := gangFor(j.TrainingJob, preparation{reports: test.to}).Spec.Roles[0].Template
			var volume string
			for _, m := range template.Spec.Containers[0].VolumeMounts {
				if path.Clean(m.MountPath) != path.Dir(v1alpha1.ProgressPath) {
					continue
				}
				if volume != "" {
					t.Errorf("%s and %s are both mounted there", volume, m.Name)
				}
				volume = m.Name
			}
			there := slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume && v.EmptyDir != nil })
			if volume != test.volume || there != (volume != "") {
				t.Errorf("volume %q, which the pod has: %t; want %q", volume, there, test.volume)
			}
			if got := template.Annotations[v1alpha1.AnnotationReports] == v1alpha1.ReportsUnread; got != test.unread {
				t.Errorf("noted as unread: %t, want %t", got, test.unread)
			}
		})
	}
}

func TestWhereCommandsRun(t *testing.T) {
	image := &v1alpha1.Environment{Image: "pytorch/pytorch:2"}
	code := &v1alpha1.Code{Snapshot: "0123"}
	for _, test := range []struct {
		name        string
		environment *v1alpha1.Environment
		code        *v1alpha1.Code
		want        string
	}{
		{"the machine's own", nil, nil, "/muster/code"},
		{"an image with code in it", image, nil, ""},
		{"an image, and code", image, code, "/muster/code"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob("a").role("worker", 1, "").with(func(s *v1alpha1.TrainingJobSpec) {
				s.Roles[0].Command = []string{"true"}
				s.Environment, s.Code = test.environment, test.code
			})
			if got := gangFor(j.TrainingJob, preparation{}).Spec.Roles[0].Template.Spec.Containers[0].WorkingDir; got != test.want {
				t.Errorf("in %q, want %q", got, test.want)
			}
		})
	}
}

func TestScriptByURL(t *testing.T) {
	const url = "https://host.test/a/train.py?raw=1"
	for script, want := range map[string]string{url: "train.py", "train.py": "train.py"} {
		j := newJob("a").role("worker", 1, script).with(func(s *v1alpha1.TrainingJobSpec) { s.Code = &v1alpha1.Code{URL: url} })
		command := gangFor(j.TrainingJob, preparation{code: digest}).Spec.Roles[0].Template.Spec.Containers[0].Command
		if diff := cmp.Diff([]string{"python3", want}, command); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.TrainingJobSpec)
		want   string
	}{
		"fine":               {func(*v1alpha1.TrainingJobSpec) {}, ""},
		"long names":         {func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].Name = strings.Repeat("r", 32) }, "host name may have 63"},
		"no command":         {func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].Script = "" }, "give a command"},
		"script but no code": {func(s *v1alpha1.TrainingJobSpec) { s.Code = nil }, "the job has no code"},
		"MUSTER_ROOT":        {func(s *v1alpha1.TrainingJobSpec) { s.Env = []corev1.EnvVar{{Name: "MUSTER_ROOT"}} }, "MUSTER_ROOT is set by Muster"},
		"volume outside": {func(s *v1alpha1.TrainingJobSpec) {
			s.Volumes = []v1alpha1.JobVolume{{Name: "v", Claim: "c", MountPath: "../x"}}
		}, "not below the working directory"},
		"volume called checkpoints": {func(s *v1alpha1.TrainingJobSpec) {
			s.Volumes = []v1alpha1.JobVolume{{Name: "checkpoints", Size: quantity("1Gi"), MountPath: "x"}}
		}, "taken by the job's checkpoint folder"},
		"half a GPU":     {func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].GPUs = quantity("500m") }, ""},
		"memory of one":  {func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].GPUMemory = quantity("8Gi") }, ""},
		"one and a half": {func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].GPUs = quantity("1500m") }, "a share below one GPU, such as 250m"},
		"whole GPUs and memory": {func(s *v1alpha1.TrainingJobSpec) {
			s.Roles[0].GPUs, s.Roles[0].GPUMemory = quantity("2"), quantity("8Gi")
		}, "leave one of them out"},
		"a pod's own share": {func(s *v1alpha1.TrainingJobSpec) {
			s.Roles[0].Resources.Limits = corev1.ResourceList{v1alpha1.ResourceGPUMilli: *quantity("250")}
		}, "as the role's own field, as in gpus: 250m"},
		"unequal GPUs": {func(s *v1alpha1.TrainingJobSpec) {
			s.Roles[0].Resources = corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{v1alpha1.ResourceGPU: *quantity("2")},
				Requests: corev1.ResourceList{v1alpha1.ResourceGPU: *quantity("1")},
			}
		}, "resources.limits asks for 2 GPUs and resources.requests for 1"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(strings.Repeat("j", 40)).role("worker", 3, "train.py").with(c.change)
			got := check(j.TrainingJob)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestDrift(t *testing.T) {
	j := newJob("a").role("worker", 1, "train.py")
	gang := gangFor(j.TrainingJob, preparation{code: digest})
	limit := int32(3)
	j.Spec.Suspend, j.Spec.BackoffLimit = true, &limit
	if got := drifted(j.TrainingJob, gang); len(got) != 0 {
		t.Errorf("%v", got)
	}
	j.Spec.Roles[0].Args = []string{"x"}
	j.Spec.Queue = "other"
	if got := fmt.Sprint(drifted(j.TrainingJob, gang)); got != "[roles]" {
		t.Errorf("%v", got)
	}
	gang.Status.Phase = v1alpha1.GangRunning
	if got := fmt.Sprint(drifted(j.TrainingJob, gang)); got != "[queue roles]" {
		t.Errorf("%v", got)
	}
}
