package trainingjob

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// maxHostName is the longest name of a host, and so of a member.
const maxHostName = 63

// check finds what the API's own validation cannot see and what no member
// could start with. It returns a sentence, or nothing.
func check(job *v1alpha1.TrainingJob) string {
	if job.Unreadable != "" {
		return "spec: it cannot be read (" + job.Unreadable + "); correct that field and submit the job again"
	}
	for i := range job.Spec.Roles {
		if problem := checkRole(job, &job.Spec.Roles[i]); problem != "" {
			return fmt.Sprintf("role %s: %s", job.Spec.Roles[i].Name, problem)
		}
	}
	if problem := checkDoneWhen(job); problem != "" {
		return problem
	}
	for _, v := range job.Spec.Volumes {
		clean := path.Clean(v.MountPath)
		if !path.IsAbs(clean) && (clean == ".." || strings.HasPrefix(clean, "../") || clean == ".") {
			return fmt.Sprintf("volume %s: the path %q is not below the working directory; name a folder inside it, such as data", v.Name, v.MountPath)
		}
		if !path.IsAbs(clean) && bringsItsOwn(job) {
			return fmt.Sprintf("volume %s: the path %q is relative, and where the commands of an image run is not known; give an absolute path", v.Name, v.MountPath)
		}
		if v.Size != nil && v.Name == checkpointsName && checkpointClaim(job) != nil {
			return "volume checkpoints: the name is taken by the job's checkpoint folder; choose another"
		}
	}
	if problem := checkData(job); problem != "" {
		return problem
	}
	return checkEnv("env", job.Spec.Env)
}

// checkDoneWhen finds a success policy that could never hold.
func checkDoneWhen(job *v1alpha1.TrainingJob) string {
	for _, entry := range job.Spec.DoneWhen {
		name, index, single := strings.Cut(entry, "/")
		at := slices.IndexFunc(job.Spec.Roles, func(r v1alpha1.Role) bool { return r.Name == name })
		if at < 0 {
			return fmt.Sprintf("doneWhen: %s names a role that the job does not have; give one of its roles, or a member such as worker/0", entry)
		}
		if n, err := strconv.ParseInt(index, 10, 32); single && (err != nil || n < 0 || n >= int64(replicas(&job.Spec.Roles[at])) || strconv.FormatInt(n, 10) != index) {
			return fmt.Sprintf("doneWhen: %s names a member that the job does not have; the members of %s are %s/0 to %s/%d", entry, name, name, name, replicas(&job.Spec.Roles[at])-1)
		}
	}
	return ""
}

func checkRole(job *v1alpha1.TrainingJob, role *v1alpha1.Role) string {
	longest := fmt.Sprintf("%s-%s-%d", job.Name, role.Name, replicas(role)-1)
	if len(longest) > maxHostName {
		return fmt.Sprintf("%s would have %d characters, and a host name may have %d; shorten the job's or the role's name", longest, len(longest), maxHostName)
	}
	if len(role.Command) == 0 && role.Script == "" && (role.Template == nil || len(role.Template.Spec.Containers) == 0) {
		return "give a command (a list of words) or a script (a Python file in the code folder)"
	}
	if script := scriptOf(job, role); script != "" && !path.IsAbs(script) && job.Spec.Code == nil && image(job, role) == hostImage {
		return fmt.Sprintf("the script %s is looked for in the code folder, and the job has no code; give code.snapshot (muster run does) or code.url", script)
	}
	if problem := checkEnv("env", role.Env); problem != "" {
		return problem
	}
	if problem := cmp.Or(checkKeys(role), checkFirstLabels(role.FirstLabels), checkGrace(role.Template), checkTemplate(job, role)); problem != "" {
		return problem
	}
	_, problem := gpus(role)
	return problem
}

// checkKeys finds labels and annotations of members that only Muster sets: the scheduler
// charges GPUs by these keys, and network policies open a namespace by them.
func checkKeys(role *v1alpha1.Role) string {
	fields := map[string][]string{
		"firstLabels": slices.Collect(maps.Keys(role.FirstLabels)),
		"indexLabels": role.IndexLabels,
	}
	if role.Template != nil {
		fields["template.metadata.labels"] = slices.Collect(maps.Keys(role.Template.Labels))
		fields["template.metadata.annotations"] = slices.Collect(maps.Keys(role.Template.Annotations))
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		keys := slices.Sorted(slices.Values(fields[field]))
		if i := slices.IndexFunc(keys, v1alpha1.Reserved); i >= 0 {
			return fmt.Sprintf("%s: Muster itself sets %s; choose a key outside of muster.dev, such as example.com/part", field, keys[i])
		}
	}
	return ""
}

// longestGrace is the longest grace period of a member, in seconds. Others wait that long for
// the GPUs of a member that was told to stop.
const longestGrace = 3600

// checkGrace finds a grace period that would let a member keep its GPUs for too long.
func checkGrace(t *corev1.PodTemplateSpec) string {
	if t == nil || t.Spec.TerminationGracePeriodSeconds == nil || *t.Spec.TerminationGracePeriodSeconds <= longestGrace {
		return ""
	}
	return fmt.Sprintf("template.spec.terminationGracePeriodSeconds is %d: a member has at most %d seconds to end, because others wait for its GPUs; save checkpoints while it runs",
		*t.Spec.TerminationGracePeriodSeconds, longestGrace)
}

// checkFirstLabels finds labels that the API server would refuse.
func checkFirstLabels(all map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Sprintf("firstLabels: %q is no key of a label: %s", key, problems[0])
		}
		if problems := validation.IsValidLabelValue(all[key]); len(problems) > 0 {
			return fmt.Sprintf("firstLabels: %q is no value of the label %s: %s", all[key], key, problems[0])
		}
	}
	return ""
}

func checkEnv(where string, env []corev1.EnvVar) string {
	for i := range env {
		if env[i].Name == v1alpha1.EnvRoot {
			return fmt.Sprintf("%s: %s is set by Muster and cannot be changed; remove it", where, v1alpha1.EnvRoot)
		}
	}
	return ""
}

// gpus is how many GPUs each member of the role wants. People who know
// Kubernetes ask for them among the resources; both must say the same.
func gpus(role *v1alpha1.Role) (*resource.Quantity, string) {
	wants := map[string]resource.Quantity{}
	if role.GPUs != nil {
		wants["gpus"] = *role.GPUs
	}
	sources := []struct {
		name string
		list corev1.ResourceList
	}{{"resources.limits", role.Resources.Limits}, {"resources.requests", role.Resources.Requests}}
	if role.Template != nil && len(role.Template.Spec.Containers) > 0 {
		r := role.Template.Spec.Containers[0].Resources
		sources = append(sources, struct {
			name string
			list corev1.ResourceList
		}{"template limits", r.Limits}, struct {
			name string
			list corev1.ResourceList
		}{"template requests", r.Requests})
	}
	for _, s := range sources {
		for _, own := range []struct {
			name  corev1.ResourceName
			field string
		}{{v1alpha1.ResourceGPUMilli, "gpus: 250m"}, {v1alpha1.ResourceGPUMemory, "gpuMemory: 8Gi"}} {
			if _, ok := s.list[own.name]; ok {
				return nil, fmt.Sprintf("%s: %s is for pods written by hand; write it as the role's own field, as in %s", s.name, own.name, own.field)
			}
		}
		if q, ok := s.list[v1alpha1.ResourceGPU]; ok {
			wants[s.name] = q
		}
	}
	var first *resource.Quantity
	var firstName string
	for _, name := range []string{"gpus", "resources.limits", "resources.requests", "template limits", "template requests"} {
		q, ok := wants[name]
		if !ok {
			continue
		}
		if share := q.Sign() > 0 && q.MilliValue() < 1000; q.Sign() < 0 || (!share && q.MilliValue()%1000 != 0) {
			return nil, fmt.Sprintf("%s asks for %s GPUs; give a whole number, 0 or more, or a share below one GPU, such as 250m", name, q.String())
		}
		if first == nil {
			first, firstName = &q, name
		} else if first.Cmp(q) != 0 {
			return nil, fmt.Sprintf("%s asks for %s GPUs and %s for %s; a GPU is held for as long as the process runs, so there is one number: write gpus: %s", firstName, first.String(), name, q.String(), first.String())
		}
	}
	if first != nil && role.GPUMemory != nil && first.Sign() > 0 && first.MilliValue() >= 1000 {
		return nil, fmt.Sprintf("%s asks for %s whole GPUs and gpuMemory for %s of one; leave one of them out, or give a share below one GPU, such as gpus: 250m", firstName, first.String(), role.GPUMemory)
	}
	return first, ""
}
