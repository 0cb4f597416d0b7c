package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// rig is the two controllers with a real store, foreman and workers. The objects
// are in memory, and jobs are run by the rig: a goroutine for each member.
type rig struct {
	testing.TB
	ctx       context.Context
	server    client.Client
	machine   *Machine
	pipelines *Pipelines
	runs      *Runs
	uids      int
	jobs      map[string]context.CancelFunc
	// ids tell a job from the one of the same name that was there before.
	ids   map[string]types.UID
	group sync.WaitGroup
	// end has its foreman and all members end, and halt what is of Muster's process.
	end, halt func()
	// foreman is the one that members reach, whichever process has it.
	foreman atomic.Pointer[foreman.Foreman]
	// instead are lines that members of roles run instead of their words.
	instead map[string]string
	// started counts the jobs that were run.
	started int
	// hired, where it is set, is asked whether a member may start.
	hired func() bool
	// restarts says that workers that fail begin anew, as they do on nodes.
	restarts bool
	// over, where it is set, hears of jobs of workers whose members have ended.
	over func(job *v1alpha1.TrainingJob)
	home string
	// disk is the foreman's folder below the home.
	disk string
}

const space = "team"

// library is images by their names, with what is in them.
type library map[string]string

func (l library) Check(name string) error {
	if strings.HasPrefix(name, "windows/") {
		return errors.New("images for Windows do not run here")
	}
	return nil
}

func (l library) Ensure(name string, _ time.Time) ImageState {
	switch digest := l[name]; {
	case name == "host":
		return ImageState{Host: true}
	case digest == "":
		return ImageState{Failed: true, Message: "no registry has " + name}
	default:
		return ImageState{Digest: digest}
	}
}

type noCode struct{}

func (noCode) Ensure(string, string) source.State {
	return source.State{Phase: source.Failed, Message: "no"}
}
func (noCode) Has(string, string) (bool, error)              { return true, nil }
func (noCode) Contains(string, string, string) (bool, error) { return true, nil }
func (noCode) Files(_, d string) (map[string]string, error) {
	return map[string]string{"main.sh": d}, nil
}

type noEnvironment struct{}

func (noEnvironment) EnsureFor(*v1alpha1.PipelineRun, []v1alpha1.Role, environment.Request) environment.State {
	return environment.State{Phase: environment.Failed, Message: "there are no environments here"}
}

// testScheme is made once: making it takes longer than most tests.
var testScheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
})

// newRig starts one. Another one of the same home and server is Muster started
// anew.
func newRig(t testing.TB, before *rig) *rig {
	t.Helper()
	r := &rig{TB: t, jobs: map[string]context.CancelFunc{}, ids: map[string]types.UID{}, disk: "pipelines"}
	if before != nil {
		r.home, r.server, r.uids, r.disk = before.home, before.server, before.uids, before.disk
	} else {
		r.home = t.TempDir()
		scheme, err := testScheme()
		r.must(err)
		r.server = fake.NewClientBuilder().WithScheme(scheme).
			WithStatusSubresource(&v1alpha1.Pipeline{}, &v1alpha1.PipelineRun{}, &v1alpha1.TrainingJob{}).Build()
	}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(t.Context())
	r.end = sync.OnceFunc(func() {
		cancel()
		r.halt()
		r.group.Wait()
	})
	r.boot()
	return r
}

// boot starts Muster's process: what it has in memory is new, members are who they were.
func (r *rig) boot() {
	r.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	bytes, err := backend.OpenFolder(filepath.Join(r.home, "store"))
	r.must(err)
	store, err := data.Open(ctx, data.Options{Backend: bytes})
	r.must(err)
	f, err := foreman.New(foreman.Options{Dir: filepath.Join(r.home, r.disk)})
	r.must(err)
	r.foreman.Store(f)
	r.machine = &Machine{
		Store: func(context.Context, string) (*data.Store, error) { return store, nil }, Foreman: f, Sources: noCode{}, Environments: noEnvironment{}, Program: "muster", Worker: filepath.Join(r.home, "bin", "muster-worker"), Images: library{"box:1": "sha256:a", "same:2": "sha256:a", "box:3": "sha256:b"},
		Interpreter: func(context.Context) (string, error) { return "3.11", nil },
	}
	r.pipelines, r.runs = New(Deps{Machine: r.machine})
	r.pipelines.client, r.pipelines.live = r.server, r.server
	r.runs.client, r.runs.live = r.server, r.server
	var group sync.WaitGroup
	group.Go(func() {
		if err := f.Run(ctx); err != nil {
			r.Error(err)
		}
	})
	r.halt = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	r.Cleanup(func() {
		r.end()
		if err := store.Close(); err != nil {
			r.Error(err)
		}
	})
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// data is its store.
func (r *rig) data() *data.Store {
	r.Helper()
	store, err := r.machine.Store(r.ctx, space)
	r.must(err)
	return store
}

// dataset is one of the rig's, made where it is not there.
func (r *rig) dataset(name string) *data.Dataset {
	r.Helper()
	r.must(dataset.Ensure(r.ctx, r.server, space, "test", name))
	d, err := r.machine.dataset(r.ctx, r.server, space, name)
	r.must(err)
	return d
}

// put commits files to the branch main; a nil content removes one.
func (r *rig) put(name string, files map[string]string) string {
	r.Helper()
	session, err := r.dataset(name).Begin(r.ctx, "main", data.SessionOptions{})
	r.must(err)
	for path, text := range files {
		if text == "" {
			_, err = session.Remove(r.ctx, path)
		} else {
			err = session.Add(r.ctx, data.Stream(path, strings.NewReader(text)), data.AddOptions{})
		}
		r.must(err)
	}
	result, err := session.Commit(r.ctx, data.CommitOptions{})
	r.must(err)
	return result.Commit.ID.String()
}

// files are what a dataset's branch main has.
func (r *rig) files(name string) map[string]string {
	r.Helper()
	view, err := r.dataset(name).At(r.ctx, "main")
	r.must(err)
	return r.texts(view)
}

// texts are the files of a commit.
func (r *rig) texts(view *data.View) map[string]string {
	r.Helper()
	out := map[string]string{}
	r.must(view.Walk(r.ctx, "", func(e data.Entry) error {
		if e.Kind == tree.Link {
			out[e.Path] = "-> " + e.Target
			return nil
		}
		file, err := view.Open(r.ctx, e.Path)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(file)
		out[e.Path] = string(text)
		return errors.Join(err, file.Close())
	}))
	return out
}

// apply creates a pipeline, or changes it.
func (r *rig) apply(text string) {
	r.Helper()
	p := &v1alpha1.Pipeline{}
	r.must(yaml.UnmarshalStrict([]byte(text), p))
	p.Namespace = space
	have := &v1alpha1.Pipeline{}
	if err := r.server.Get(r.ctx, client.ObjectKeyFromObject(p), have); err == nil {
		have.Spec = p.Spec
		have.Generation++
		r.must(r.server.Update(r.ctx, have))
		return
	}
	p.UID, p.Generation = r.uid(), 1
	r.must(r.server.Create(r.ctx, p))
}

func (r *rig) uid() types.UID {
	r.uids++
	return types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", r.uids))
}

// look has the pipeline looked at, and gives its runs what the API server would.
func (r *rig) look(name string) *v1alpha1.Pipeline {
	r.Helper()
	_, err := r.pipelines.Reconcile(r.ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: space, Name: name}})
	r.must(err)
	list := &v1alpha1.PipelineRunList{}
	r.must(r.server.List(r.ctx, list))
	for i := range list.Items {
		if run := &list.Items[i]; run.UID == "" {
			run.UID, run.CreationTimestamp = r.uid(), metav1.NewTime(time.Now().Add(time.Duration(r.uids)*time.Second))
			r.must(r.server.Update(r.ctx, run))
		}
	}
	p := &v1alpha1.Pipeline{}
	r.must(r.server.Get(r.ctx, types.NamespacedName{Namespace: space, Name: name}, p))
	return p
}

// step takes a run one step further.
func (r *rig) step(name string) *v1alpha1.PipelineRun {
	r.Helper()
	key := types.NamespacedName{Namespace: space, Name: name}
	_, err := r.runs.Reconcile(r.ctx, ctrl.Request{NamespacedName: key})
	r.must(err)
	r.employ()
	run := &v1alpha1.PipelineRun{}
	r.must(r.server.Get(r.ctx, key, run))
	return run
}

// finish takes the pipeline's run to its end.
func (r *rig) finish(pipeline string) *v1alpha1.PipelineRun {
	r.Helper()
	run := r.finishUnless(pipeline, nil)
	r.look(pipeline)
	return r.step(run.Name) // which tidies
}

// finishUnless takes the pipeline's run to its end, or to where it is enough.
func (r *rig) finishUnless(pipeline string, enough func(*v1alpha1.PipelineRun) bool) *v1alpha1.PipelineRun {
	r.Helper()
	p := r.look(pipeline)
	if p.Status.Phase == v1alpha1.PipelineInvalid || p.Status.LastRun == "" {
		r.Fatalf("pipeline %s: %s: %s", pipeline, p.Status.Phase, p.Status.Message)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		run := r.step(p.Status.LastRun)
		if Ended(run.Status.Phase) || enough != nil && enough(run) {
			return run
		}
		if time.Now().After(deadline) {
			r.Fatalf("run %s: %s: %s", run.Name, run.Status.Phase, run.Status.Message)
		}
		select {
		case <-r.machine.Foreman.Changes():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: space, Name: name}}
}

// employ runs the jobs that there are and not those that are gone.
func (r *rig) employ() {
	r.Helper()
	list := &v1alpha1.TrainingJobList{}
	r.must(r.server.List(r.ctx, list))
	there := map[string]bool{}
	for i := range list.Items {
		job := &list.Items[i]
		there[job.Name] = true
		if job.UID == "" {
			job.UID = r.uid()
			r.must(r.server.Update(r.ctx, job))
		}
		if cancel, id := r.jobs[job.Name], r.ids[job.Name]; cancel != nil && id != "" && id != job.UID {
			cancel()
			delete(r.jobs, job.Name)
		}
		r.ids[job.Name] = job.UID
		if r.jobs[job.Name] == nil {
			r.start(job)
		}
	}
	for name, cancel := range r.jobs {
		if !there[name] {
			cancel()
			delete(r.jobs, name)
		}
	}
}

// start runs the members of a job, as goroutines.
func (r *rig) start(job *v1alpha1.TrainingJob) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.jobs[job.Name] = cancel
	role := &job.Spec.Roles[0]
	if r.hired != nil && !r.hired() {
		return
	}
	r.started++
	environ := append(os.Environ(), r.variables(job.Spec.Env)...)
	if slices.Contains(role.Command, "member") {
		r.group.Go(func() { r.lent(ctx, job.DeepCopy(), environ) })
		return
	}
	if slices.Contains(role.Command, "--post") {
		r.apart(ctx, job, environ)
		return
	}
	if role.Command[0] != r.machine.Program {
		for i, v := range environ {
			// What it is shown is not mounted for it here.
			environ[i] = strings.ReplaceAll(v, "="+datumDir, "="+shown(job, "datum"))
		}
		r.train(job, environ)
		return
	}
	nth := r.started
	var members sync.WaitGroup
	for i := range *role.Replicas {
		members.Go(func() {
			r.work(ctx, worker.Options{
				Folder: role.Command[3], Name: fmt.Sprintf("%s-%d-%d", job.Name, i, nth), Member: fmt.Sprint(i), GPUs: 1, Environ: environ, Out: io.Discard,
			})
		})
	}
	r.follow(ctx, job, &members)
}

// follow tells, where somebody asks, once all members of a job of workers have ended.
func (r *rig) follow(ctx context.Context, job *v1alpha1.TrainingJob, members *sync.WaitGroup) {
	job = job.DeepCopy()
	r.group.Go(func() {
		members.Wait()
		if r.over != nil && ctx.Err() == nil {
			r.over(job)
		}
	})
}

// work runs a worker, which is begun again after a failure if the rig restarts them.
func (r *rig) work(ctx context.Context, o worker.Options) {
	name := o.Name
	for n := 1; ; n++ {
		err := worker.Run(ctx, o)
		if err == nil || !r.restarts || ctx.Err() != nil {
			r.complain(ctx, err)
			return
		}
		o.Name = fmt.Sprintf("%s-%d", name, n)
	}
}

// complain has a worker's failure be the test's, unless its job is about to end: the
// work that it computes goes first.
func (r *rig) complain(ctx context.Context, err error) {
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		r.Error(err)
	}
}

// shown is the folder of the machine that the members of a job are shown as a
// volume.
func shown(job *v1alpha1.TrainingJob, name string) string {
	if t := job.Spec.Roles[0].Template; t != nil {
		for _, v := range t.Spec.Volumes {
			if v.Name == name && v.HostPath != nil {
				return v.HostPath.Path
			}
		}
	}
	return ""
}

// apart runs members that see nothing but their post.
func (r *rig) apart(ctx context.Context, job *v1alpha1.TrainingJob, environ []string) {
	role := &job.Spec.Roles[0]
	var members sync.WaitGroup
	for i := range *role.Replicas {
		o := worker.Options{
			Post: r.post(ctx, job, fmt.Sprintf("%s/%d", role.Name, i)), Work: role.Command[slices.Index(role.Command, "--work")+1], Scratch: r.TempDir(),
			Name: fmt.Sprintf("%s-%d-%d", job.Name, i, r.started), Member: fmt.Sprint(i), GPUs: 1, Environ: environ, Out: io.Discard,
		}
		members.Go(func() {
			r.work(ctx, o)
		})
	}
	r.follow(ctx, job, &members)
}

// post is the folder by which a member reaches the foreman.
func (r *rig) post(ctx context.Context, job *v1alpha1.TrainingJob, member string) string {
	if r.machine.carries() {
		return r.posting(ctx, job.DeepCopy(), member)
	}
	return shown(job, "foreman")
}

// variables are what a kubelet makes of them when a container starts.
func (r *rig) variables(env []corev1.EnvVar) (out []string) {
	for _, v := range env {
		if v.ValueFrom == nil {
			out = append(out, v.Name+"="+v.Value)
			continue
		}
		said, of := &corev1.Secret{}, v.ValueFrom.SecretKeyRef
		err := r.server.Get(r.ctx, types.NamespacedName{Namespace: space, Name: of.Name}, said)
		if value, there := said.Data[of.Key]; there {
			out = append(out, v.Name+"="+string(value))
		} else if of.Optional == nil || !*of.Optional {
			r.Errorf("variable %s cannot be had: %v", v.Name, err)
		}
	}
	return out
}

// train runs the first member of a job that is no worker's, to its end.
func (r *rig) train(job *v1alpha1.TrainingJob, environ []string) {
	r.Helper()
	role := &job.Spec.Roles[0]
	cmd := exec.CommandContext(r.ctx, role.Command[0], role.Command[1:]...)
	cmd.Env = environ
	began := metav1.Now()
	said, err := cmd.CombinedOutput()
	ended := metav1.Now()
	job.Status = v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobSucceeded, StartTime: &began, FinishTime: &ended, GPUSeconds: resource.MustParse("12")}
	if err != nil {
		job.Status.Phase, job.Status.Message = v1alpha1.JobFailed, fmt.Sprintf("%v: %s", err, said)
	}
	r.must(r.server.Status().Update(r.ctx, job))
}

// computed are the datums that each stage of a run computed.
func computed(run *v1alpha1.PipelineRun) map[string]int64 {
	out := map[string]int64{}
	for _, s := range run.Status.Stages {
		out[s.Name] = s.Datums.Computed
	}
	return out
}
