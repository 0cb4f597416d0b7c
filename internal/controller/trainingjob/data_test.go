package trainingjob

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/dataset/reading"
)

// library stands for data: what it answers is the test's.
type library struct{ state reading.State }

func (l *library) Ensure(*v1alpha1.TrainingJob) reading.State { return l.state }
func (l *library) Changes() <-chan string                     { return nil }

var commit = v1alpha1.DatasetCommit(strings.Repeat("3f", 32))

func reads(data ...v1alpha1.JobData) job {
	return newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.Data = data })
}

// TestDataComesFirst: no gang before it is all there, and before the status says which
// commits it is.
func TestDataComesFirst(t *testing.T) {
	w := newWorld(t, reads(v1alpha1.JobData{Dataset: "digits", Mount: "/data"}, v1alpha1.JobData{Dataset: "digits", Version: "v1", Path: "/train", Mount: "in"}).TrainingJob)
	l := &library{state: reading.State{Phase: reading.Fetching, Message: "fetching digits@main: 3.2 GB of 8.0 GB"}}
	w.controller.deps.Data = l
	w.settle("a")
	if job := w.job("a"); job.Status.Phase != v1alpha1.JobPreparing || job.Status.Message != "data: fetching digits@main: 3.2 GB of 8.0 GB" {
		t.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
	}
	l.state = reading.State{Phase: reading.Ready, Data: []v1alpha1.JobDataStatus{
		{Mount: "/data", Dataset: "digits", Version: "main", Commit: commit, Files: 3, Bytes: 5, Key: "k0"},
		{Mount: "in", Dataset: "digits", Version: "v1", Path: "/train", Commit: commit, Files: 2, Bytes: 4, Lazy: true},
	}}
	_, err := w.reconcile("a")
	must(t, err)
	if job := w.job("a"); w.objects() != "0 gangs, 0 services, 1 claims" && w.objects() != "0 gangs, 0 services, 0 claims" || len(job.Status.Data) != 2 {
		t.Errorf("%s are there, and the status has %v", w.objects(), job.Status.Data)
	}
	w.settle("a")
	job := w.job("a")
	if c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionPrepared); c == nil || c.Message != "code, environment and data are ready" {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff(l.state.Data, job.Status.Data); diff != "" {
		t.Error(diff)
	}
	pod := w.gang("a").Spec.Roles[0].Template.Spec
	var volumes []map[string]string
	for _, v := range pod.Volumes {
		if v.CSI != nil && v.CSI.Driver == v1alpha1.DataDriver {
			volumes = append(volumes, v.CSI.VolumeAttributes)
		}
	}
	if diff := cmp.Diff([]map[string]string{
		{"commit": string(commit), "path": "", "key": "k0", "words": "digits@main"},
		{"commit": string(commit), "path": "/train", "key": "", "words": "digits@v1:/train", "lazy": "true"},
	}, volumes); diff != "" {
		t.Error(diff)
	}
	var mounts []string
	for _, m := range pod.Containers[0].VolumeMounts {
		if strings.HasPrefix(m.Name, "muster-data-") && m.ReadOnly {
			mounts = append(mounts, m.MountPath)
		}
	}
	if diff := cmp.Diff([]string{"/data", "/muster/code/in"}, mounts); diff != "" {
		t.Error(diff)
	}
	env := map[string]string{}
	for _, e := range pod.Containers[0].Env {
		if strings.HasPrefix(e.Name, v1alpha1.EnvData) {
			env[e.Name] = e.Value
		}
	}
	if diff := cmp.Diff(map[string]string{"MUSTER_DATA_DIGITS": "/data", "MUSTER_DATA_DIGITS_2": "$(MUSTER_ROOT)/code/in"}, env); diff != "" {
		t.Error(diff)
	}
}

func TestDataThatIsMissing(t *testing.T) {
	w := newWorld(t, reads(v1alpha1.JobData{Dataset: "digits", Mount: "/data"}).TrainingJob)
	w.controller.deps.Data = &library{state: reading.State{Phase: reading.Failed, Message: "there is no dataset digits in namespace vision"}}
	w.settle("a")
	if job := w.job("a"); job.Status.Phase != v1alpha1.JobFailed || job.Status.Message != "data: there is no dataset digits in namespace vision" {
		t.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
	}
}

// TestDataWithoutAStore: as on a cluster.
func TestDataWithoutAStore(t *testing.T) {
	w := newWorld(t, reads(v1alpha1.JobData{Dataset: "digits", Mount: "/data"}).TrainingJob)
	w.settle("a")
	if job := w.job("a"); job.Status.Phase != v1alpha1.JobFailed || !strings.Contains(job.Status.Message, "there is no store of data on this cluster, or no agents that bring it to nodes; have them set") {
		t.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
	}
}

func TestCheckData(t *testing.T) {
	at := func(mounts ...string) []v1alpha1.JobData {
		var all []v1alpha1.JobData
		for _, m := range mounts {
			all = append(all, v1alpha1.JobData{Dataset: "digits", Mount: m})
		}
		return all
	}
	for name, tt := range map[string]struct {
		job  job
		says string
	}{
		"absolute":      {reads(at("/data", "/muster/data/x")...), ""},
		"relative":      {reads(at("data", "./more/data")...), ""},
		"everything":    {reads(at("//")...), "is everything"},
		"out of it":     {reads(at("a/../../data")...), "is not below the working directory"},
		"the directory": {reads(at("./")...), "is not below the working directory"},
		"the code":      {reads(at("/muster/code/")...), "is the place of Muster itself; choose another, such as /muster/data/digits"},
		"checkpoints":   {reads(at("/muster/checkpoints")...), "is the place of Muster itself"},
		"twice":         {reads(at("/data", "/data/")...), "is the place of data digits"},
		"a volume": {reads(at("data")...).with(func(s *v1alpha1.TrainingJobSpec) {
			size := resource.MustParse("1Gi")
			s.Volumes = []v1alpha1.JobVolume{{Name: "big", Size: &size, MountPath: "/muster/code/data"}}
		}), "is the place of volume big"},
		"an image": {reads(at("data")...).with(func(s *v1alpha1.TrainingJobSpec) {
			s.Code, s.Environment = nil, &v1alpha1.Environment{Image: "tf:2"}
			s.Roles[0].Script, s.Roles[0].Command = "", []string{"run"}
		}), "where the commands of an image run is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			switch problem := checkData(tt.job.TrainingJob); {
			case tt.says == "" && problem != "":
				t.Error(problem)
			case !strings.Contains(problem, tt.says):
				t.Errorf("%q", problem)
			}
		})
	}
}

// TestDataServer: where nodes do not serve what members read as they ask for it, a
// container beside each does, with no right and before any other.
func TestDataServer(t *testing.T) {
	w := newWorld(t, reads(v1alpha1.JobData{Dataset: "digits", Mount: "/data"}).TrainingJob)
	w.controller.deps.ServesData = true
	l := &library{state: reading.State{Phase: reading.Ready, Data: []v1alpha1.JobDataStatus{{Mount: "/data", Dataset: "digits", Version: "main", Commit: commit, Key: "k0"}}}}
	w.controller.deps.Data = l
	w.settle("a")
	if pod := w.gang("a").Spec.Roles[0].Template.Spec; len(pod.InitContainers) != 0 {
		t.Errorf("beside one that reads what is fetched are %+v", pod.InitContainers)
	}
	w = newWorld(t, reads(v1alpha1.JobData{Dataset: "digits", Mount: "/data"}).TrainingJob)
	w.controller.deps.ServesData, w.controller.deps.Data = true, l
	l.state.Data[0].Lazy, l.state.Data[0].Files = true, 20<<20
	w.settle("a")
	pod := w.gang("a").Spec.Roles[0].Template.Spec
	if len(pod.InitContainers) != 1 {
		t.Fatalf("beside it are %+v", pod.InitContainers)
	}
	c := pod.InitContainers[0]
	if *c.RestartPolicy != corev1.ContainerRestartPolicyAlways || c.Image != pod.Containers[0].Image || c.StartupProbe == nil {
		t.Errorf("it is %+v", c)
	}
	// A name that the kernel knows takes about 110 bytes, which it may do of all.
	if limit := c.Resources.Limits.Memory().Value(); limit != 1<<30+20<<20*192 || len(c.Env) != 1 || c.Env[0].Value != fmt.Sprint(limit/100*75) {
		t.Errorf("of 20 million files it may use %d bytes, and is told %v", limit, c.Env)
	}
	if s := c.SecurityContext; !*s.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("it may do %+v", s)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.MountPath == deskDir || m.MountPath == servingDir {
			t.Errorf("the member sees %s", m.MountPath)
		}
	}
	desks := 0
	for _, v := range pod.Volumes {
		if v.CSI != nil && v.CSI.VolumeAttributes["desk"] == "true" {
			desks++
		}
	}
	if desks != 1 {
		t.Errorf("it has %d desks among %+v", desks, pod.Volumes)
	}
}
