package run

import (
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/environment/source"
)

// Flags is what the user asked for, as it was written.
type Flags struct {
	Name         string
	Workers      *int
	MinWorkers   *int // with how many it starts, if a range was given
	PS           *int
	Nodes        *int
	Chief        bool
	Evaluator    bool
	GPUs         string
	GPUMemory    string
	CPUs         string
	Memory       string
	Framework    string
	Requirements string
	IndexSecret  string
	Python       string
	Image        string
	Script       string
	Code         string
	Volumes      []string
	Data         []string
	Lazy         bool
	Queue        string
	Priority     string
	Within       string
	Near         string
	Apart        string
	Spread       string
	Expect       string
	Resumable    bool
	Env          []string
	MaxTime      string
	BackoffLimit *int
	Checkpoints  string
	Command      []string

	// empty are the flags that were given without a value, as an unset
	// variable of a shell leaves them.
	empty []string
}

// Inputs are what the flags do not say: what was found on this machine.
type Inputs struct {
	// Namespace is where the job goes.
	Namespace string
	// Folder is the code folder's name, for the job's name.
	Folder string
	// Script is the script's path in the code folder, with slashes; empty for
	// a command or a URL.
	Script string
	// Snapshot is the digest of the code; empty for a URL or no code.
	Snapshot string
	// Requirements is the text of the requirements file.
	Requirements string
	// PythonPath is the absolute folder of an environment, where --python
	// names one.
	PythonPath string
	// Submitter is user@host.
	Submitter string
	// Suffix makes a default name unique.
	Suffix string
	// Getenv reads a variable for --env K.
	Getenv func(string) (string, bool)
}

// Build makes the TrainingJob that the flags describe. It reads nothing. Its
// errors are sentences, of exit code 2.
func Build(flags Flags, in Inputs) (*v1alpha1.TrainingJob, error) {
	if err := flags.check(); err != nil {
		return nil, err
	}
	name, err := flags.name(in)
	if err != nil {
		return nil, err
	}
	job := &v1alpha1.TrainingJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: in.Namespace},
	}
	if in.Submitter != "" {
		job.Annotations = map[string]string{v1alpha1.AnnotationSubmitter: in.Submitter}
	}
	spec := &job.Spec
	if spec.Framework, err = flags.framework(); err != nil {
		return nil, err
	}
	if spec.Roles, err = flags.roles(in); err != nil {
		return nil, err
	}
	if spec.Volumes, err = parseVolumes(flags.Volumes); err != nil {
		return nil, err
	}
	if spec.Data, err = parseData(flags.Data, flags.Lazy); err != nil {
		return nil, err
	}
	if spec.Env, err = parseEnv(flags.Env, in.Getenv); err != nil {
		return nil, err
	}
	if err = checkIdentity(spec); err != nil {
		return nil, err
	}
	if spec.Checkpoints, err = parseCheckpoints(flags.Checkpoints); err != nil {
		return nil, err
	}
	if spec.ActiveDeadlineSeconds, err = parseMaxTime(flags.MaxTime); err != nil {
		return nil, err
	}
	if spec.ExpectedRunTime, err = flags.parseExpect(); err != nil {
		return nil, err
	}
	if spec.Topology, err = flags.topology(); err != nil {
		return nil, err
	}
	spec.Queue, spec.PriorityClassName, spec.Resumable = flags.Queue, flags.Priority, flags.Resumable
	spec.Code = flags.code(in)
	spec.Environment = flags.environment(in)
	if flags.BackoffLimit != nil {
		limit := int32(*flags.BackoffLimit)
		spec.BackoffLimit = &limit
	}
	return job, nil
}

// isURL reports whether a script is fetched rather than read.
func isURL(script string) bool {
	return strings.HasPrefix(script, "http://") || strings.HasPrefix(script, "https://")
}

// check refuses combinations that make no sense.
func (f *Flags) check() error {
	if len(f.empty) > 0 {
		return exit.Usage("%s: its value is empty: is a variable of your shell not set? Leave the flag out, or give it a value", strings.Join(f.empty, ", "))
	}
	switch {
	case f.Nodes != nil && (f.Workers != nil || f.PS != nil):
		return exit.Usage("--nodes and --workers/--ps say the same thing in two ways: --nodes N is for PyTorch (N equal members), --workers and --ps for TensorFlow; give one")
	case f.Nodes != nil && (f.Chief || f.Evaluator):
		return exit.Usage("--chief and --evaluator are roles of TensorFlow and go with --workers, not with --nodes")
	case f.PS != nil && *f.PS != 0 && f.Workers == nil && !f.Chief:
		return exit.Usage("--ps %d without workers: parameter servers serve workers; add --workers N", *f.PS)
	case f.Evaluator && f.Workers == nil && !f.Chief:
		return exit.Usage("--evaluator without workers: there is nothing to evaluate; add --workers N")
	case f.Python != "" && f.Image != "" && (f.Requirements == "" || isFolder(f.Python)):
		return exit.Usage("--python and --image are two environments: give one")
	case f.IndexSecret != "" && f.Requirements == "":
		return exit.Usage("--index-secret %s is read while requirements are installed: add --requirements FILE", f.IndexSecret)
	case f.Requirements != "" && isFolder(f.Python):
		return exit.Usage("--requirements and --python %s are two environments: give one (or --python 3.11, the version to install the requirements into)", f.Python)
	case isURL(f.Script) && source.FileName(f.Script) == "":
		return exit.Usage("--script %s: the address names no file: give the address of the script itself, ending in something like /train.py", f.Script)
	case isURL(f.Script) && f.Code != "":
		return exit.Usage("--script with a URL and --code: the script is all the code there is then; give one")
	case f.Script == "" && len(f.Command) == 0:
		return exit.Usage("nothing to run: give a command, as in `muster run -- python train.py`, or a script, as in `muster run --script train.py`")
	case f.Script == "" && strings.TrimSpace(f.Command[0]) == "":
		return exit.Usage("nothing to run: the command after -- is empty")
	}
	for _, count := range []struct {
		flag  string
		value *int
		least int
	}{{"--workers", f.Workers, 0}, {"--ps", f.PS, 0}, {"--nodes", f.Nodes, 1}} {
		if count.value == nil {
			continue
		}
		if *count.value < count.least || *count.value > 1000 {
			return exit.Usage("%s %d: give a whole number from %d to 1000", count.flag, *count.value, count.least)
		}
	}
	if err := f.checkRange(); err != nil {
		return err
	}
	if f.Workers != nil && *f.Workers == 0 && !f.Chief {
		return exit.Usage("--workers 0: a job needs at least one worker, or a --chief")
	}
	topology, err := f.topology()
	if err != nil {
		return err
	}
	spread, err := f.spread()
	if err != nil {
		return err
	}
	if err := checkTogether(topology, spread); err != nil {
		return err
	}
	if f.BackoffLimit != nil && (*f.BackoffLimit < 0 || *f.BackoffLimit > 1000) {
		return exit.Usage("--backoff-limit %d: give a whole number from 0 to 1000", *f.BackoffLimit)
	}
	return nil
}

// framework is the one that was named, or the one that the other flags imply.
func (f *Flags) framework() (v1alpha1.Framework, error) {
	if f.Framework != "" {
		return parseFramework(f.Framework)
	}
	switch {
	case f.Nodes != nil:
		return v1alpha1.FrameworkPyTorch, nil
	case f.MinWorkers != nil:
		return v1alpha1.FrameworkNone, nil
	case f.Workers != nil, f.PS != nil, f.Chief:
		return v1alpha1.FrameworkTensorFlow, nil
	case startsTorch(f.Command):
		// One process for each GPU, on a port that no other job has: torchrun's own
		// defaults are one process, and in older releases the same port for all.
		return v1alpha1.FrameworkPyTorch, nil
	}
	return v1alpha1.FrameworkNone, nil
}

// roles are the job's parts: all run the same command. Parameter servers and
// evaluators get no GPU.
func (f *Flags) roles(in Inputs) ([]v1alpha1.Role, error) {
	gpus, models, err := parseGPUs(f.GPUs)
	if err != nil {
		return nil, err
	}
	gpuMemory, err := parseGPUMemory(f.GPUMemory, gpus)
	if err != nil {
		return nil, err
	}
	requests, err := parseRequests(f.CPUs, f.Memory)
	if err != nil {
		return nil, err
	}
	spread, err := f.spread()
	if err != nil {
		return nil, err
	}
	var roles []v1alpha1.Role
	add := func(name string, replicas int, trains bool) {
		if replicas == 0 {
			return
		}
		count := int32(replicas)
		role := v1alpha1.Role{Name: name, Replicas: &count, Resources: corev1.ResourceRequirements{Requests: requests}}
		if trains && (gpus != nil || gpuMemory != nil) {
			role.GPUs, role.GPUMemory, role.GPUModels = gpus, gpuMemory, models
		}
		if replicas > 1 {
			role.Spread = spread.DeepCopy()
		}
		f.program(in, &role)
		roles = append(roles, role)
	}
	if f.Chief {
		add("chief", 1, true)
	}
	switch {
	case f.Nodes != nil:
		add("worker", *f.Nodes, true)
	case f.Workers != nil:
		add("worker", *f.Workers, true)
		f.stretch(roles)
	case !f.Chief:
		add("worker", 1, true)
	}
	if f.PS != nil {
		add("ps", *f.PS, false)
	}
	if f.Evaluator {
		add("evaluator", 1, false)
	}
	// A script that fails on its own shall end the command with its exit
	// code, not be tried again and again.
	if len(roles) == 1 && *roles[0].Replicas == 1 && f.BackoffLimit == nil {
		roles[0].RestartPolicy = v1alpha1.RestartNever
	}
	return roles, nil
}

// program sets what a role runs.
func (f *Flags) program(in Inputs, role *v1alpha1.Role) {
	script := in.Script
	if isURL(f.Script) {
		script = source.FileName(f.Script)
	}
	switch {
	case script == "":
		role.Command = f.Command
	case path.Ext(script) == ".sh":
		role.Command, role.Args = []string{"sh", script}, f.Command
	default:
		role.Script, role.Args = script, f.Command
	}
}

func (f *Flags) code(in Inputs) *v1alpha1.Code {
	switch {
	case isURL(f.Script):
		return &v1alpha1.Code{URL: f.Script}
	case in.Snapshot != "":
		return &v1alpha1.Code{Snapshot: in.Snapshot}
	}
	return nil
}

func (f *Flags) environment(in Inputs) *v1alpha1.Environment {
	made := v1alpha1.Environment{Requirements: in.Requirements, IndexSecret: f.IndexSecret, Image: f.Image, Path: in.PythonPath}
	if f.Python != "" && in.PythonPath == "" {
		made.Python = f.Python
	}
	if made == (v1alpha1.Environment{}) {
		return nil
	}
	return &made
}

// parseMaxTime reads --max-time, in seconds; nil: no limit.
func parseMaxTime(text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	span, err := parseSpan("--max-time", text)
	if err != nil {
		return nil, err
	}
	seconds := int64(span / time.Second)
	return &seconds, nil
}

// parseSpan reads "4h", "90m", "1d" or "2d12h", to whole seconds.
func parseSpan(flag, text string) (time.Duration, error) {
	var total time.Duration
	rest := text
	if days, after, found := strings.Cut(text, "d"); found {
		var number int
		if _, err := fmt.Sscanf(days+"\n", "%d\n", &number); err != nil || number > 36500 {
			return 0, exit.Usage("%s %s: give a duration such as 90m, 4h or 2d12h", flag, text)
		}
		if number < 0 {
			return 0, exit.Usage("%s %s: give at least one second", flag, text)
		}
		total, rest = time.Duration(number)*24*time.Hour, after
	}
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil {
			return 0, exit.Usage("%s %s: give a duration such as 90m, 4h or 2d12h", flag, text)
		}
		total += more
	}
	if total < time.Second {
		return 0, exit.Usage("%s %s: give at least one second", flag, text)
	}
	return total.Truncate(time.Second), nil
}
