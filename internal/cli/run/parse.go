package run

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// maxName is the longest name of a job: member names are made from it.
const maxName = 48

// leastMemory is the least that --memory may be, in bytes: less is a unit that
// was forgotten.
const leastMemory = 1 << 20

// mostGPUMemory is the most that --gpu-memory may be, in bytes.
const mostGPUMemory = 4 << 40

var (
	nameShape     = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	unsafeInName  = regexp.MustCompile(`[^a-z0-9]+`)
	variableShape = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	claimShape    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	shareShape    = regexp.MustCompile(`^([0-9]+m|[0-9]*\.[0-9]+)$`)
	versionShape  = regexp.MustCompile(`^3(\.[0-9]+)?$`)
)

// name is the one that was given, or one made of the script's or folder's.
func (f *Flags) name(in Inputs) (string, error) {
	if f.Name == "" {
		base := in.Folder
		if script := scriptOf(f.Script, f.Command); script != "" {
			if isURL(script) {
				script = source.FileName(script)
			}
			base = strings.TrimSuffix(path.Base(script), path.Ext(script))
		}
		return safeName(base, maxName-len(in.Suffix)-1) + "-" + in.Suffix, nil
	}
	if len(f.Name) > maxName {
		return "", exit.Usage("--name %s: it has %d characters and may have at most %d, because member names are made from it", f.Name, len(f.Name), maxName)
	}
	if !nameShape.MatchString(f.Name) {
		return "", exit.Usage("--name %s: a name starts with a letter and has lower-case letters, digits and '-', because it becomes a host name; how about %s?", f.Name, safeName(f.Name, maxName))
	}
	return f.Name, nil
}

// safeName makes a name of at most limit characters out of any words.
func safeName(words string, limit int) string {
	name := strings.Trim(unsafeInName.ReplaceAllString(strings.ToLower(words), "-"), "-")
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = strings.Trim("job-"+name, "-")
	}
	if len(name) > limit {
		name = strings.TrimRight(name[:limit], "-")
	}
	return name
}

// scriptOf is the script that a command runs, as far as can be told: --script,
// or the first Python file after python.
func scriptOf(script string, command []string) string {
	if script != "" {
		return script
	}
	if len(command) < 2 || !runsScripts(command[0]) {
		return ""
	}
	for _, word := range command[1:] {
		switch {
		case strings.HasSuffix(word, ".py") && !strings.HasPrefix(word, "-"):
			return word
		case word == "-m" || word == "-c":
			return ""
		}
	}
	return ""
}

// runsScripts reports whether a program's first Python file is its script.
func runsScripts(program string) bool {
	base := path.Base(program)
	return strings.HasPrefix(base, "python") || base == "torchrun"
}

func parseFramework(text string) (v1alpha1.Framework, error) {
	spellings := map[string]v1alpha1.Framework{
		"tensorflow": v1alpha1.FrameworkTensorFlow, "tf": v1alpha1.FrameworkTensorFlow,
		"pytorch": v1alpha1.FrameworkPyTorch, "torch": v1alpha1.FrameworkPyTorch,
		"none": v1alpha1.FrameworkNone,
	}
	if framework, ok := spellings[strings.ToLower(text)]; ok {
		return framework, nil
	}
	names := []string{string(v1alpha1.FrameworkTensorFlow), string(v1alpha1.FrameworkPyTorch), string(v1alpha1.FrameworkNone)}
	return "", exit.Usage("--framework %s: there is TensorFlow, PyTorch and None%s", text, suggestion.Phrase(text, names))
}

// modelAlone matches models without a number: "B200", "A100,H100". A word without a
// digit is more likely a mistake.
var modelAlone = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*[0-9][A-Za-z0-9-]*(, ?[A-Za-z][A-Za-z0-9-]*[0-9][A-Za-z0-9-]*)*$`)

// parseGPUs reads "2", "A100:2", "A100,H100:2", "B200" for one, and shares of one GPU: "250m",
// "0.25", "A100:250m". nil: none asked for.
func parseGPUs(text string) (*resource.Quantity, []string, error) {
	if text == "" {
		return nil, nil, nil
	}
	if modelAlone.MatchString(text) {
		text += ":1"
	}
	count := text
	var models []string
	if cut := strings.LastIndexByte(text, ':'); cut >= 0 {
		count = text[cut+1:]
		for model := range strings.SplitSeq(text[:cut], ",") {
			model = strings.TrimSpace(model)
			if model == "" || strings.ContainsAny(model, ": \t") || len(model) > 64 {
				return nil, nil, exit.Usage("--gpus %s: give models and a number of GPUs, such as A100:2 or A100,H100:2", text)
			}
			models = append(models, model)
		}
	}
	if share, given, err := parseShare(text, count); given || err != nil {
		return share, models, err
	}
	number, err := strconv.Atoi(count)
	switch {
	case err != nil:
		return nil, nil, exit.Usage("--gpus %s: give a number of GPUs, such as 1 or 2, a share of one, such as 250m or 0.25, or models and a number, such as A100:2", text)
	case number < 0 || number > 1024:
		return nil, nil, exit.Usage("--gpus %s: the number of GPUs of each member is from 0 to 1024", text)
	case number == 0 && len(models) > 0:
		return nil, nil, exit.Usage("--gpus %s: no GPU of a model makes no sense: give 1 or more, or leave --gpus out", text)
	case number == 0:
		return nil, nil, nil
	}
	return resource.NewQuantity(int64(number), resource.DecimalSI), models, nil
}

// parseShare reads a share of one GPU, "250m" or "0.25"; false for what is not
// written like one.
func parseShare(text, count string) (*resource.Quantity, bool, error) {
	if !shareShape.MatchString(count) {
		return nil, false, nil
	}
	share, err := resource.ParseQuantity(count)
	whole := *resource.NewQuantity(1, resource.DecimalSI)
	switch exact := *resource.NewMilliQuantity(share.MilliValue(), resource.DecimalSI); {
	case err != nil:
		return nil, false, exit.Usage("--gpus %s: give a share of one GPU such as 250m or 0.25", text)
	case share.Sign() == 0:
		return nil, false, exit.Usage("--gpus %s: a share is from 1m to 999m of one GPU", text)
	case share.Cmp(whole) == 0:
		return &whole, true, nil
	case share.Cmp(whole) > 0:
		return nil, false, exit.Usage("--gpus %s: a share is below one GPU, such as 250m or 0.25, or ask for whole GPUs, such as 2", text)
	case exact.Cmp(share) != 0:
		return nil, false, exit.Usage("--gpus %s: a share is in thousandths of one GPU: from 1m to 999m, or 0.001 to 0.999", text)
	default:
		return &exact, true, nil
	}
}

// parseGPUMemory reads --gpu-memory, so much memory of one GPU; nil: nothing
// said of it.
func parseGPUMemory(text string, gpus *resource.Quantity) (*resource.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	memory, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return nil, exit.Usage("--gpu-memory %s: give an amount of one GPU's memory, such as 8Gi or 500Mi", text)
	case memory.Value() < leastMemory:
		return nil, exit.Usage("--gpu-memory %s: that is %s, too little for any process: give a unit, such as 8Gi or 500Mi", text, terminal.Count(memory.Value(), "byte"))
	case memory.Value() > mostGPUMemory:
		return nil, exit.Usage("--gpu-memory %s: no GPU has so much: give an amount of one GPU's memory, such as 8Gi", text)
	case gpus != nil && gpus.MilliValue() >= 1000:
		return nil, exit.Usage("--gpus %s with --gpu-memory %s: --gpu-memory is memory of one GPU: leave --gpus out, or give a share, such as --gpus 250m", gpus, text)
	}
	return &memory, nil
}

// parseRequests reads --cpus and --memory.
func parseRequests(cpus, memory string) (corev1.ResourceList, error) {
	requests := corev1.ResourceList{}
	for _, one := range []struct {
		flag, text, example string
		name                corev1.ResourceName
	}{{"--cpus", cpus, "4 or 500m", corev1.ResourceCPU}, {"--memory", memory, "16Gi or 500Mi", corev1.ResourceMemory}} {
		if one.text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(one.text)
		if err != nil {
			return nil, exit.Usage("%s %s: give an amount such as %s", one.flag, one.text, one.example)
		}
		if quantity.Sign() <= 0 {
			return nil, exit.Usage("%s %s: give more than nothing, such as %s", one.flag, one.text, one.example)
		}
		if one.name == corev1.ResourceMemory && quantity.Value() < leastMemory {
			return nil, exit.Usage("%s %s: that is %s, too little for any process: give a unit, such as %s", one.flag, one.text, terminal.Count(quantity.Value(), "byte"), one.example)
		}
		requests[one.name] = quantity
	}
	if len(requests) == 0 {
		return nil, nil
	}
	return requests, nil
}

// parseVolumes reads "10Gi:/data" (a new folder of that size) and
// "datasets:/data" (an existing claim), each with ":ro" or without.
func parseVolumes(texts []string) ([]v1alpha1.JobVolume, error) {
	var volumes []v1alpha1.JobVolume
	names, paths := map[string]bool{}, map[string]bool{}
	for _, text := range texts {
		parts := strings.Split(text, ":")
		readOnly := len(parts) == 3 && parts[2] == "ro"
		if readOnly {
			parts = parts[:2]
		}
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			return nil, exit.Usage("--volume %s: give SIZE:PATH, such as 10Gi:/data, or CLAIM:PATH, such as datasets:/data; add :ro to mount it read-only", text)
		}
		mountPath := path.Clean(parts[1])
		if paths[mountPath] {
			return nil, exit.Usage("--volume %s: %s is mounted twice", text, mountPath)
		}
		paths[mountPath] = true
		volume := v1alpha1.JobVolume{Name: volumeName(mountPath, names), MountPath: mountPath, ReadOnly: readOnly}
		size, err := resource.ParseQuantity(parts[0])
		switch {
		case err == nil && size.Sign() <= 0:
			return nil, exit.Usage("--volume %s: give a size above 0, such as 10Gi", text)
		case err == nil:
			volume.Size = &size
		case !claimShape.MatchString(parts[0]):
			return nil, exit.Usage("--volume %s: %s is neither a size, such as 10Gi, nor the name of a claim", text, parts[0])
		default:
			volume.Claim = parts[0]
		}
		volumes = append(volumes, volume)
	}
	return volumes, nil
}

// volumeName makes a name, not yet taken, from where a volume is mounted.
func volumeName(mountPath string, taken map[string]bool) string {
	base := strings.Trim(unsafeInName.ReplaceAllString(strings.ToLower(path.Base(mountPath)), "-"), "-")
	if base == "" {
		base = "volume"
	}
	base = strings.TrimRight(base[:min(len(base), 32)], "-")
	name := base
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	taken[name] = true
	return name
}

// parseEnv reads "K=V", and "K" as the variable of this shell.
func parseEnv(texts []string, getenv func(string) (string, bool)) ([]corev1.EnvVar, error) {
	var variables []corev1.EnvVar
	for _, text := range texts {
		name, value, given := strings.Cut(text, "=")
		if !variableShape.MatchString(name) {
			return nil, exit.Usage("--env %s: give NAME=VALUE, or NAME for a variable of this shell", text)
		}
		if !given {
			found := false
			if getenv != nil {
				value, found = getenv(name)
			}
			if !found {
				return nil, exit.Usage("--env %s: this shell has no such variable: give %s=VALUE", text, name)
			}
			// The value is meant as it is, not as a reference.
			value = strings.ReplaceAll(value, "$(", "$$(")
		}
		if err := environment.PasswordIn(name, value); err != nil {
			return nil, exit.Usage("--env %v", err)
		}
		variables = append(variables, corev1.EnvVar{Name: name, Value: value})
	}
	return variables, nil
}

// parseCheckpoints reads a claim's name, a size, or none.
func parseCheckpoints(text string) (*v1alpha1.Checkpoints, error) {
	switch text {
	case "":
		return nil, nil
	case "none":
		return &v1alpha1.Checkpoints{None: true}, nil
	}
	if size, err := resource.ParseQuantity(text); err == nil {
		if size.Sign() <= 0 {
			return nil, exit.Usage("--checkpoints %s: give a size above 0, such as 50Gi, the name of a claim, or none", text)
		}
		return &v1alpha1.Checkpoints{Size: &size}, nil
	}
	if !claimShape.MatchString(text) {
		return nil, exit.Usage("--checkpoints %s: give the name of a claim, the size of a new one, such as 50Gi, or none", text)
	}
	return &v1alpha1.Checkpoints{Claim: text}, nil
}

// isFolder reports whether --python names a folder rather than a version.
func isFolder(python string) bool { return python != "" && !versionShape.MatchString(python) }
