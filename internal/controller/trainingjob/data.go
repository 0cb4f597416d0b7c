package trainingjob

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// dataEnv are the variables by which members find what they read: MUSTER_DATA_ and
// the dataset's name in capital letters; where a dataset is read twice, the second
// variable ends in _2.
func dataEnv(job *v1alpha1.TrainingJob, workingDir string) []corev1.EnvVar {
	var out []corev1.EnvVar
	count := map[string]int{}
	for i := range job.Spec.Data {
		d := &job.Spec.Data[i]
		name := v1alpha1.EnvData + strings.ToUpper(strings.ReplaceAll(d.Dataset, "-", "_"))
		if count[d.Dataset]++; count[d.Dataset] > 1 {
			name += fmt.Sprint("_", count[d.Dataset])
		}
		at := within(workingDir, d.Mount)
		if at == v1alpha1.PodRoot || strings.HasPrefix(at, v1alpha1.PodRoot+"/") {
			at = below(at)
		}
		out = append(out, corev1.EnvVar{Name: name, Value: at})
	}
	return out
}

// dataWords are what people call what is read.
func dataWords(d *v1alpha1.JobDataStatus) string {
	text := d.Dataset + "@" + d.Version
	if at := strings.Trim(d.Path, "/"); at != "" {
		text += ":/" + at
	}
	return text
}

// taken are the folders below the root that Muster itself mounts.
var taken = []string{v1alpha1.PodRoot, codeDir, codeCopyDir, environmentDir, checkpointsDir, logsDir, path.Dir(v1alpha1.ProgressPath)}

// checkData finds mounts of data that no member could have.
func checkData(job *v1alpha1.TrainingJob) string {
	mounts := map[string]string{}
	for _, dir := range taken {
		mounts[dir] = "Muster itself"
	}
	for _, v := range job.Spec.Volumes {
		mounts[within(codeDir, v.MountPath)] = "volume " + v.Name
	}
	for i := range job.Spec.Data {
		d := &job.Spec.Data[i]
		if problem := checkMount(job, d.Mount); problem != "" {
			return fmt.Sprintf("data %s: the mount %q %s", d.Dataset, d.Mount, problem)
		}
		at := within(codeDir, d.Mount)
		if by := mounts[at]; by != "" {
			return fmt.Sprintf("data %s: the mount %q is the place of %s; choose another, such as /muster/data/%s", d.Dataset, d.Mount, by, d.Dataset)
		}
		mounts[at] = "data " + d.Dataset
	}
	return ""
}

// checkMount finds a mount path that leads nowhere.
func checkMount(job *v1alpha1.TrainingJob, mount string) string {
	clean := path.Clean(mount)
	switch {
	case clean == "/":
		return "is everything; name a folder, such as /data"
	case path.IsAbs(clean):
		return ""
	case clean == ".." || strings.HasPrefix(clean, "../") || clean == ".":
		return "is not below the working directory; name a folder inside it, such as data"
	case bringsItsOwn(job):
		return "is relative, and where the commands of an image run is not known; give an absolute path"
	}
	return ""
}
