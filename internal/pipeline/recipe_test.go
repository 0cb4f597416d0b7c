package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func secret(name, of, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: of}, Key: key}}}
}

// full is a stage and what it means, with everything that a recipe has.
func full() (v1alpha1.Stage, Resolved) {
	return v1alpha1.Stage{
			Input: v1alpha1.Input{InputSource: source("raw", "/*")}, Command: []string{"python", "x.py"}, Args: []string{"--lr", "1"}, Stdin: []string{"a"},
			Env: []corev1.EnvVar{{Name: "LR", Value: "1"}, secret("TOKEN", "s", "k")}, MountPath: "/pfs",
		}, Resolved{
			Code:        Fingerprint{ID: "c1", Parts: map[string]string{"x.py": "1", "y.py": "1"}},
			Environment: Fingerprint{ID: "e1", Parts: map[string]string{"numpy": "1.26.0", "python": "3.11"}},
			Versions:    map[string]string{VersionOf("Secret", "s"): "7"},
		}
}

// TestRecipe: what a result depends on counts, and is told; what it does not depend
// on does not.
func TestRecipe(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.Stage, *Resolved)
		says   []string // none: it does not count
	}{
		{"code", func(_ *v1alpha1.Stage, r *Resolved) {
			r.Code = Fingerprint{ID: "c2", Parts: map[string]string{"x.py": "2", "z.py": "1"}}
		}, []string{"code file x.py: 1 -> 2", "code file y.py is gone: it was 1", "code file z.py is new: 1"}},
		{"code without parts", func(_ *v1alpha1.Stage, r *Resolved) {
			r.Code = Fingerprint{ID: "c2", Parts: map[string]string{"x.py": "1", "y.py": "1"}}
		}, []string{"code differs"}},
		{"a package", func(_ *v1alpha1.Stage, r *Resolved) {
			r.Environment = Fingerprint{ID: "e2", Parts: map[string]string{"numpy": "1.26.1", "python": "3.11"}}
		}, []string{"environment: numpy: 1.26.0 -> 1.26.1"}},
		{"an argument", func(s *v1alpha1.Stage, _ *Resolved) { s.Args[1] = "2" }, []string{"argument 1: 1 -> 2"}},
		{"an argument more", func(s *v1alpha1.Stage, _ *Resolved) { s.Args = append(s.Args, "") }, []string{"argument 2 is new"}},
		{"words apart", func(s *v1alpha1.Stage, _ *Resolved) {
			s.Command, s.Args = []string{"python"}, []string{"x.py", "--lr", "1"}
		}, []string{"argument 0: --lr -> x.py", "argument 1: 1 -> --lr", "argument 2 is new: 1", "word 1 of the command is gone: it was x.py"}},
		{"a variable", func(s *v1alpha1.Stage, _ *Resolved) { s.Env[0].Value = "2" }, []string{"variable LR differs"}},
		{"a secret's version", func(_ *v1alpha1.Stage, r *Resolved) { r.Versions[VersionOf("Secret", "s")] = "8" }, []string{
			"variable TOKEN: Secret s, key k, version 7 -> Secret s, key k, version 8"}},
		{"a secret's key", func(s *v1alpha1.Stage, _ *Resolved) { s.Env[1] = secret("TOKEN", "s", "other") }, []string{
			"variable TOKEN: Secret s, key k, version 7 -> Secret s, key other, version 7"}},
		{"standard input", func(s *v1alpha1.Stage, _ *Resolved) { s.Stdin = []string{"b"} }, []string{"stdin differs"}},
		{"the folder of inputs", func(s *v1alpha1.Stage, _ *Resolved) { s.MountPath = "/x" }, []string{"mountPath 0: /pfs -> /x", "variables is gone: it was of Pachyderm 2"}},
		{"batch", func(s *v1alpha1.Stage, _ *Resolved) { s.Batch = true }, []string{"batch is new"}},
		{"another input", func(s *v1alpha1.Stage, _ *Resolved) { s.Input.Dataset, s.Input.Glob = "other", "/" }, nil},
		{"resources", func(s *v1alpha1.Stage, _ *Resolved) {
			q := resource.MustParse("1")
			s.GPUs, s.GPUModels, s.Resources = &q, []string{"h100"}, &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": q}}
		}, nil},
		{"how it runs", func(s *v1alpha1.Stage, _ *Resolved) {
			s.Parallelism, s.OnFailure, s.Tries = &v1alpha1.Parallelism{Max: 9}, v1alpha1.FailSkip, new(int32)
			s.Output, s.AcceptKeys = &v1alpha1.StageOutput{Dataset: "elsewhere"}, []string{strings.Repeat("a", 64)}
		}, nil},
		{"an order of variables", func(s *v1alpha1.Stage, _ *Resolved) { s.Env[0], s.Env[1] = s.Env[1], s.Env[0] }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := full()
			old := recipeOf(t, stage(t, s), r)
			s, r = full()
			c.change(&s, &r)
			now := recipeOf(t, stage(t, s), r)
			var says []string
			for _, d := range now.Diff(old) {
				says = append(says, d.String())
			}
			if d := cmp.Diff(c.says, says); d != "" {
				t.Error(d)
			}
			if (now.ID == old.ID) != (c.says == nil) {
				t.Errorf("%s -> %s", old.ID.Short(), now.ID.Short())
			}
			text, err := now.Encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeRecipe(text)
			if err != nil || cmp.Diff(now, again) != "" {
				t.Error(err, cmp.Diff(now, again))
			}
		})
	}
}

func TestRecipeOfJobs(t *testing.T) {
	three, five := int32(3), int32(5)
	job := func(change func(*v1alpha1.TrainingJobSpec)) *Recipe {
		spec := &v1alpha1.TrainingJobSpec{Framework: "TensorFlow", Queue: "q", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}, Roles: []v1alpha1.Role{
			{Name: "ps", Script: "ps.py"}, {Name: "worker", Replicas: &three, Args: []string{"x"}, Env: []corev1.EnvVar{{Name: "B", Value: "1"}}},
		}}
		change(spec)
		return recipeOf(t, stage(t, v1alpha1.Stage{Command: []string{}, Training: spec, Input: v1alpha1.Input{InputSource: source("raw", "")}}), Resolved{})
	}
	old := job(func(*v1alpha1.TrainingJobSpec) {})
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.TrainingJobSpec)
		counts bool
	}{
		{"queue", func(s *v1alpha1.TrainingJobSpec) { s.Queue = "other" }, false},
		{"suspend", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = true }, false},
		{"priority", func(s *v1alpha1.TrainingJobSpec) { s.PriorityClassName = "high" }, false},
		{"tries", func(s *v1alpha1.TrainingJobSpec) { s.BackoffLimit = &five }, false},
		{"models", func(s *v1alpha1.TrainingJobSpec) { s.Roles[1].GPUModels = []string{"h100"} }, false},
		{"GPUs", func(s *v1alpha1.TrainingJobSpec) { q := resource.MustParse("2"); s.Roles[1].GPUs = &q }, false},
		{"order of roles", func(s *v1alpha1.TrainingJobSpec) { s.Roles[0], s.Roles[1] = s.Roles[1], s.Roles[0] }, false},
		{"replicas", func(s *v1alpha1.TrainingJobSpec) { s.Roles[1].Replicas = &five }, true},
		{"script", func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].Script = "other.py" }, true},
		{"arguments", func(s *v1alpha1.TrainingJobSpec) { s.Roles[1].Args = nil }, true},
		{"framework", func(s *v1alpha1.TrainingJobSpec) { s.Framework = "None" }, true},
		{"variables", func(s *v1alpha1.TrainingJobSpec) { s.Env[0].Value = "2" }, true},
		{"variables of a role", func(s *v1alpha1.TrainingJobSpec) { s.Roles[1].Env[0].Value = "2" }, true},
	} {
		if now := job(c.change); (now.ID != old.ID) != c.counts {
			t.Errorf("%s: %v", c.name, now.Diff(old))
		}
	}
	spark := func(args ...string) *Recipe {
		return recipeOf(t, stage(t, v1alpha1.Stage{Command: []string{}, Spark: &v1alpha1.SparkStage{Script: "s.py", Args: args, Executors: &v1alpha1.Parallelism{Max: int32(len(args) + 1)}}, Input: v1alpha1.Input{InputSource: source("raw", "")}}), Resolved{})
	}
	if spark("a").ID == spark("b").ID {
		t.Error("arguments of Spark do not count")
	}
}

// What the templates of roles say counts as well, and a Secret there by its version.
func TestVariablesOfTemplates(t *testing.T) {
	template := func(value, version string) (*Stage, *Recipe) {
		optional := true
		spec := &v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker", Env: []corev1.EnvVar{secret("TOKEN", "s", "k")}, Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:    "main",
			Env:     []corev1.EnvVar{{Name: "A", Value: value}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Optional: &optional}}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}},
		}}}}}}}
		s := stage(t, v1alpha1.Stage{Command: []string{}, Training: spec, Input: v1alpha1.Input{InputSource: source("raw", "")}})
		r := Resolved{Versions: map[string]string{VersionOf("Secret", "s"): "1"}}
		if version != "" {
			r.Versions[VersionOf("ConfigMap", "c")] = version
		}
		return s, recipeOf(t, s, r)
	}
	s, old := template("1", "")
	for name, other := range map[string][2]string{"a variable": {"2", ""}, "a ConfigMap that is there now": {"1", "7"}} {
		if _, now := template(other[0], other[1]); now.ID == old.ID {
			t.Errorf("%s does not count", name)
		}
	}
	if _, same := template("1", ""); same.ID != old.ID {
		t.Error("the same is something else")
	}
	want := []Reference{{Kind: "Secret", Name: "s", Variable: "TOKEN"}, {Kind: "ConfigMap", Name: "c", Optional: true}}
	got := References(s)
	for i := range got {
		got[i].key = ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := NewRecipe(s, Resolved{}); err == nil || !strings.Contains(err.Error(), "role worker: variable TOKEN: Secret s") {
		t.Error(err)
	}
}

// A variable that may be missing is another one than one that is there.
func TestOptionalVariables(t *testing.T) {
	s, r := full()
	yes := true
	s.Env[1].ValueFrom.SecretKeyRef.Optional = &yes
	there := recipeOf(t, stage(t, s), r)
	delete(r.Versions, VersionOf("Secret", "s"))
	missing := recipeOf(t, stage(t, s), r)
	if there.ID == missing.ID || missing.Detail["env/TOKEN"] != "Secret s, key k, which is not there" {
		t.Errorf("%+v", missing.Detail)
	}
}

func TestRecipeRefused(t *testing.T) {
	s, r := full()
	delete(r.Versions, VersionOf("Secret", "s"))
	if _, err := NewRecipe(stage(t, s), r); err == nil || !strings.Contains(err.Error(), "variable TOKEN: Secret s, which it comes from, was not found") {
		t.Error(err)
	}
	s.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	if _, err := NewRecipe(stage(t, s), r); err == nil || !strings.Contains(err.Error(), "variable POD") {
		t.Error(err)
	}
	if _, err := DecodeRecipe([]byte(`{"id":"` + strings.Repeat("a", 64) + `","parts":{"a":"b"}}`)); err == nil {
		t.Error("a recipe that is not what it is called")
	}
}

// TestRecipesOfBefore do not say what words were: then they differ, and no more is known.
func TestRecipesOfBefore(t *testing.T) {
	with := func(args ...string) *Recipe {
		s := input(v1alpha1.Input{InputSource: source("aaa", "/*")})
		s.Args = args
		return recipeOf(t, stage(t, s), Resolved{})
	}
	old, now := with("1", "2"), with("1", "3", strings.Repeat("é", 200))
	clear(old.Detail)
	if got := says(now.Diff(old)); !slices.Equal(got, []string{"argument 1 differs", "argument 2 is new: " + strings.Repeat("é", 100) + "..."}) {
		t.Errorf("%q", got)
	}
	if got := says(old.Diff(now)); !slices.Equal(got, []string{"argument 1 differs", "argument 2 is gone: it was " + strings.Repeat("é", 100) + "..."}) {
		t.Errorf("%q", got)
	}
}
