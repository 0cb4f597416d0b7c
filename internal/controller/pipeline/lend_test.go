package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// elsewhere is a rig whose stages run on other machines.
func elsewhere(t *testing.T, before *rig) *rig {
	r := newRig(t, before)
	r.machine.Elsewhere, r.machine.DefaultImage = true, "box:1"
	return r
}

// posting serves a post as the agent and the door do, for the pod of a member.
func (r *rig) posting(ctx context.Context, job *v1alpha1.TrainingJob, member string) string {
	dir, err := os.MkdirTemp("", "post-") // the address of a socket is short
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, shift.TokenFile), []byte("x"), 0o600)
	}
	var listener net.Listener
	if err == nil {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, shift.SocketFile))
	}
	if err != nil {
		r.Error(err)
		return ""
	}
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		in.Header.Set(shift.MemberHeader, member)
		in.Header.Set(shift.PodHeader, "pod of "+member)
		in.Header.Set(shift.BornHeader, "1")
		in.Header.Set(shift.JobHeader, tagOf(job))
		in.Header.Set(shift.AttemptHeader, "1")
		r.foreman.Load().HandlerFor(space).ServeHTTP(out, in)
	})}
	r.group.Go(func() { _ = server.Serve(listener) })
	r.group.Go(func() {
		<-ctx.Done()
		if err := errors.Join(server.Close(), os.RemoveAll(dir)); err != nil {
			r.Error(err)
		}
	})
	return dir
}

func drained() *metav1.MicroTime {
	now := metav1.NowMicro()
	return &now
}

// endedBy is SIGTERM once something is over.
func endedBy(over <-chan struct{}) <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	go func() {
		<-over
		signals <- syscall.SIGTERM
	}()
	return signals
}

// lent runs the members of a job, and says how it ended.
func (r *rig) lent(ctx context.Context, job *v1alpha1.TrainingJob, environ []string) {
	began := metav1.Now()
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	over := make(chan struct{}) // closed once the leader has ended
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		for index := range *role.Replicas {
			group.Go(func() {
				var said bytes.Buffer
				member, folder := fmt.Sprintf("%s/%d", role.Name, index), r.TempDir()
				own := []string{"INDEX=" + fmt.Sprint(index)}
				for _, v := range environ {
					own = append(own, strings.ReplaceAll(v, "="+r.machine.seen(datumDir), "="+folder))
				}
				words := role.Command[slices.Index(role.Command, "--")+1:]
				if line := r.instead[role.Name]; line != "" {
					words = []string{"sh", "-c", line}
				}
				at := slices.Index(role.Command, "--work")
				o := worker.MemberOptions{
					Post: r.posting(ctx, job, member), Work: role.Command[at+1], Folder: folder, Name: member, Environ: own,
					Words: words, Stdout: io.Discard, Stderr: &said, Grace: time.Minute,
				}
				if at := slices.Index(role.Command, "--mount"); at >= 0 {
					o.Mount, o.Words = r.TempDir(), slices.Clone(words) // what is at that path is each one's own
					for i := range o.Words {
						o.Words[i] = strings.ReplaceAll(o.Words[i], role.Command[at+1], o.Mount)
					}
				}
				switch {
				case slices.Contains(role.Command, "--leads"):
					o.Duty = worker.Leads
					defer close(over)
				case slices.Contains(role.Command, "--follows"):
					o.Duty, o.Signals = worker.Follows, endedBy(over)
				}
				code := worker.RunMember(ctx, o)
				if code != 0 && o.Duty != worker.Follows {
					mu.Lock()
					failed = append(failed, strings.TrimSpace(fmt.Sprintf("%s ended with %d %s", member, code, said.String())))
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	ended := metav1.Now()
	status := v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobSucceeded, StartTime: &began, FinishTime: &ended, DrainedTime: drained(), GPUSeconds: resource.MustParse("12")}
	if len(failed) > 0 {
		status.Phase, status.Message = v1alpha1.JobFailed, strings.Join(failed, ", ")
	}
	job.Status = status
	now := &v1alpha1.TrainingJob{}
	if err := r.server.Get(r.ctx, client.ObjectKeyFromObject(job), now); err == nil && now.UID != job.UID {
		return // this client does not compare UIDs: the status would be that of the next job of this name
	}
	if err := r.server.Status().Update(r.ctx, job); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		r.Error(err)
	}
}

// A training stage whose members share nothing with the foreman.
func TestTrainingElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		line, says string
		phase      v1alpha1.RunPhase
		want       map[string]string
	}{
		"apart":        {`cat $MUSTER_INPUT_THINGS/* > $MUSTER_OUTPUT/$INDEX; echo all > $MUSTER_OUTPUT/all`, "computed", v1alpha1.RunSucceeded, map[string]string{"0": "12", "1": "12", "all": "all\n"}},
		"at a path":    {`cat /pfs/things/* > /pfs/out/$INDEX; ls /pfs > /pfs/out/seen-$INDEX`, "computed", v1alpha1.RunSucceeded, map[string]string{"0": "12", "1": "12", "seen-0": "out\nthings\n", "seen-1": "out\nthings\n"}},
		"in its place": {`rm /pfs/out; mkdir /pfs/out; echo $INDEX > /pfs/out/$INDEX`, "wrote cannot be kept: it removed", v1alpha1.RunFailed, nil},
		"one fails":    {`test $INDEX = 0 || exit 3; echo x > $MUSTER_OUTPUT/x`, "worker/1 ended with 3", v1alpha1.RunFailed, nil},
		"at one path":  {`echo $INDEX > $MUSTER_OUTPUT/model`, "worker/0 and worker/1 both wrote model", v1alpha1.RunFailed, nil},
		"a pipe":       {`test $INDEX = 1 || mkfifo $MUSTER_OUTPUT/p`, "what member worker/0 wrote cannot be kept: it wrote p, which is a pipe", v1alpha1.RunFailed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := elsewhere(t, nil)
			r.put("things", map[string]string{"a": "1", "b": "2"})
			r.apply(fmt.Sprintf(`
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    mountPath: /pfs
    training: {roles: [{name: worker, replicas: 2, command: [sh, -c, '%s']}]}
`, c.line))
			run := r.finish("model")
			if run.Status.Phase != c.phase || !strings.Contains(run.Status.Message, c.says) {
				t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			if c.want != nil {
				if diff := cmp.Diff(c.want, r.files("model-train")); diff != "" {
					t.Error(diff)
				}
				if held := run.Status.Stages[0].GPUSeconds; held == nil || held.Value() != 12 {
					t.Errorf("GPUs were held for %v, and its job says 12 s", held)
				}
			}
			heads, err := r.dataset(PartsDataset).Heads(r.ctx)
			if err != nil || len(heads) > 0 {
				t.Errorf("what members wrote is left: %v, %v", heads, err)
			}
		})
	}
}

// hidden is a client that does not see a job where that is said.
func (r *rig) hidden(unseen func(*v1alpha1.TrainingJob) bool) client.Client {
	r.Helper()
	watched, ok := r.server.(client.WithWatch)
	if !ok {
		r.Fatal("the fake client cannot be watched")
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			there := &v1alpha1.TrainingJob{}
			if _, job := o.(*v1alpha1.TrainingJob); job && c.Get(ctx, key, there) == nil && unseen(there) {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "trainingjobs"}, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// one is a stage of training with one member, which runs a line.
func one(line string) string {
	return fmt.Sprintf(`
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    training: {roles: [{name: worker, replicas: 1, command: [sh, -c, '%s']}]}
`, line)
}

// What the members of a job wrote is not forgotten where a list of jobs that comes late
// does not have it.
func TestTrainingUnseen(t *testing.T) {
	r := elsewhere(t, nil)
	late := 0
	r.runs.client = r.hidden(func(job *v1alpha1.TrainingJob) bool {
		if job.Status.Phase != v1alpha1.JobSucceeded || late > 2 {
			return false
		}
		late++
		return true
	})
	r.put("things", map[string]string{"a": "1"})
	r.apply(one(`cat $MUSTER_INPUT_THINGS/a > $MUSTER_OUTPUT/model`))
	run := r.finish("model")
	if run.Status.Phase != v1alpha1.RunSucceeded || late == 0 {
		t.Fatalf("%s: %s; not seen %d times", run.Status.Phase, run.Status.Message, late)
	}
	if diff := cmp.Diff(map[string]string{"model": "1"}, r.files("model-train")); diff != "" {
		t.Error(diff)
	}
}

// The members of a job that somebody else has just created are heard at once.
func TestTrainingThere(t *testing.T) {
	r := elsewhere(t, nil)
	r.hired = func() bool { return false }
	r.put("things", map[string]string{"a": "1"})
	r.apply(one("true"))
	key := client.ObjectKey{Namespace: space}
	run := r.finishUnless("model", func(run *v1alpha1.PipelineRun) bool {
		key.Name = jobName(run, "train")
		return r.server.Get(r.ctx, key, &v1alpha1.TrainingJob{}) == nil
	})
	var looks int
	r.runs.client = r.hidden(func(*v1alpha1.TrainingJob) bool { return true })
	r.runs.live = r.hidden(func(*v1alpha1.TrainingJob) bool { looks++; return looks == 1 })
	_, err := r.runs.Reconcile(r.ctx, request(run.Name))
	r.must(err)
	if looks < 2 {
		t.Fatalf("the job was looked for %d times", looks)
	}
	job := &v1alpha1.TrainingJob{}
	r.must(r.server.Get(r.ctx, key, job))
	in := httptest.NewRequest(http.MethodGet, shift.Path+workName(run, "train")+shift.SharedPath, http.NoBody)
	for name, said := range map[string]string{shift.MemberHeader: "worker/0", shift.PodHeader: "p", shift.BornHeader: "1", shift.JobHeader: tagOf(job), shift.AttemptHeader: "1"} {
		in.Header.Set(name, said)
	}
	out := httptest.NewRecorder()
	r.machine.Foreman.HandlerFor(space).ServeHTTP(out, in)
	if out.Code != http.StatusOK {
		t.Errorf("a member of it is told %d: %s", out.Code, out.Body)
	}
}

// Another manager takes over, with a disk of its own, after a member has ended: what
// that wrote is in the store.
func TestTrainingMoves(t *testing.T) {
	before := elsewhere(t, nil)
	before.put("things", map[string]string{"a": "1"})
	before.apply(`
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    training: {roles: [{name: worker, replicas: 2, command: [sh, -c, 'echo $INDEX > $MUSTER_OUTPUT/$INDEX; test $INDEX = 0 || exec sleep 1000']}]}
`)
	run := before.finishUnless("model", func(run *v1alpha1.PipelineRun) bool { return run.Status.Stages[0].Job != "" && before.started > 0 })
	name := workName(run, "train")
	dataset := before.dataset(PartsDataset)
	for deadline := time.After(20 * time.Second); ; { // until what the first wrote is kept
		view, err := dataset.At(before.ctx, name)
		if err == nil && before.texts(view)["worker-0/part.json"] != "" {
			break
		}
		select {
		case <-before.machine.Foreman.Changes():
		case <-deadline:
			t.Fatal(err)
		}
	}
	before.disk = "another"
	after := elsewhere(t, before)
	job := &v1alpha1.TrainingJob{}
	after.must(after.server.Get(after.ctx, client.ObjectKey{Namespace: space, Name: jobName(run, "train")}, job))
	// The gang starts the second again, and it alone.
	after.jobs[job.Name] = func() {}
	again := job.DeepCopy()
	go func() {
		member, folder := "worker/1", after.TempDir()
		code := worker.RunMember(after.ctx, worker.MemberOptions{
			Post: after.posting(after.ctx, again, member), Work: name, Folder: folder, Name: member, Words: []string{"sh", "-c", "echo again > $OUT/1"},
			Environ: append(os.Environ(), "OUT="+folder+"/out"), Stdout: io.Discard, Stderr: io.Discard,
		})
		now := metav1.Now()
		again.Status = v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobSucceeded, StartTime: &now, FinishTime: &now, DrainedTime: drained()}
		if err := after.server.Status().Update(after.ctx, again); err != nil || code != 0 {
			after.Errorf("%d, %v", code, err)
		}
	}()
	if run = after.finish("model"); run.Status.Phase != v1alpha1.RunSucceeded {
		t.Fatal(run.Status.Message)
	}
	if diff := cmp.Diff(map[string]string{"0": "0\n", "1": "again\n"}, after.files("model-train")); diff != "" {
		t.Error(diff)
	}
}

// What members run, and what their pods are shown.
func TestLend(t *testing.T) {
	job := &v1alpha1.TrainingJob{}
	err := yaml.UnmarshalStrict([]byte(`
roles:
- {name: chief, script: train.py, args: [--fast]}
- {name: worker, replicas: 3, minReplicas: 1, command: [sh, -c, x], template: {spec: {terminationGracePeriodSeconds: 90, containers: [{name: m, command: [ignored]}]}}}
- {name: ps, replicas: 2, template: {spec: {containers: [{name: m, command: [serve], args: [here]}]}}}
`), &job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if at := (&Machine{Elsewhere: true}).lend(job, "uid.s", "", nil); at != datumDir {
		t.Error(at)
	}
	got := map[string]string{}
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		pod := &role.Template.Spec
		var mounts []string
		for _, m := range pod.Containers[0].VolumeMounts {
			mounts = append(mounts, fmt.Sprint(m.MountPath, " ", m.ReadOnly))
		}
		_, rest, _ := strings.Cut(strings.Join(role.Command, " "), "--grace ")
		got[role.Name] = fmt.Sprintf("%s | %s%v%v%v%d%v", rest, role.Script, role.Args, pod.Containers[0].Command, pod.Containers[0].Args, *pod.TerminationGracePeriodSeconds, mounts)
	}
	shown := "[/muster/foreman true /muster/datum false]"
	want := map[string]string{
		"chief":  "30s -- python train.py | [--fast][][]60" + shown,
		"worker": "90s -- sh -c x | [][][]120" + shown,
		"ps":     "30s -- serve here | [][][]60" + shown,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"chief/0"}, owing(job)); diff != "" {
		t.Error(diff)
	}
	job.Spec.DoneWhen = []string{"worker", "ps/1"}
	if diff := cmp.Diff([]string{"worker/0", "worker/1", "worker/2", "ps/1"}, owing(job)); diff != "" {
		t.Error(diff)
	}
	job.Spec.DoneWhen, job.Spec.Roles = nil, job.Spec.Roles[1:]
	if diff := cmp.Diff([]string{"worker/0", "worker/1", "worker/2"}, owing(job)); diff != "" {
		t.Error(diff)
	}
	servers := job.DeepCopy()
	servers.Spec.Roles = servers.Spec.Roles[1:]
	if diff := cmp.Diff([]string{"ps/0", "ps/1"}, owing(servers)); diff != "" {
		t.Error(diff)
	}
	next := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker"}}}}
	(&Machine{Elsewhere: true}).lend(next, "uid.s", "/pfs", nil)
	if pod := &next.Spec.Roles[0].Template.Spec; pod.Volumes[2].EmptyDir == nil || pod.Containers[0].VolumeMounts[2].MountPath != "/pfs" || !strings.HasSuffix(strings.Join(next.Spec.Roles[0].Command, " "), " --mount /pfs --") {
		t.Errorf("at a path it finds nothing: %+v, %q", pod.Containers[0].VolumeMounts, next.Spec.Roles[0].Command)
	}
	if a, b := tagOf(job), tagOf(next); a == "" || b == "" || a == b || tagOf(&v1alpha1.TrainingJob{}) != "" {
		t.Errorf("jobs of one stage are called %q and %q", a, b)
	}
	if v := job.Spec.Roles[0].Template.Spec.Volumes[0].CSI; v == nil || v.Driver != v1alpha1.StageDriver || v.VolumeAttributes["work"] != "uid.s" {
		t.Errorf("%+v", v)
	}
	if v := job.Spec.Roles[0].Template.Spec.Volumes[1]; v.EmptyDir == nil || v.HostPath != nil {
		t.Errorf("%+v", v)
	}
}

// What members wrote where nothing was kept yet is nothing, and who deletes a run leaves
// nothing of it, whichever manager had it.
func TestPartsComeAndGo(t *testing.T) {
	r := elsewhere(t, nil)
	w := &work{namespace: space, run: &v1alpha1.PipelineRun{Spec: v1alpha1.PipelineRunSpec{Pipeline: "model"}}}
	there := &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "model-2", UID: "there"}}
	r.must(r.server.Create(r.ctx, there))
	_, err := r.runs.Reconcile(r.ctx, request("model-0"))
	r.must(err) // there is no dataset
	for _, name := range []string{"gone.train", "there.train"} {
		var spec foreman.Spec
		r.runs.keeping(w, name, &spec)
		if err := spec.Kept(r.ctx, t.TempDir()); err != nil {
			t.Fatalf("before anything was kept: %v", err)
		}
		r.must(spec.Forget(r.ctx))
		from, to := t.TempDir(), t.TempDir()
		r.must(os.WriteFile(filepath.Join(from, "part.json"), []byte("{}"), 0o600))
		r.must(spec.Keep(r.ctx, "worker-0", from))
		r.must(spec.Keep(r.ctx, ".began", from))
		r.must(spec.Kept(r.ctx, to))
		for _, name := range []string{"worker-0", ".began"} {
			if text, err := os.ReadFile(filepath.Join(to, name, "part.json")); err != nil || string(text) != "{}" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
	}
	_, err = r.runs.Reconcile(r.ctx, request("model-1"))
	r.must(err)
	heads, err := r.dataset(PartsDataset).Heads(r.ctx)
	if err != nil || len(heads) != 1 || heads[0].Name.Name != "there.train" {
		t.Errorf("%v, %v", heads, err)
	}
}

// A path that is too long below the name of its member is refused, and not tried again.
func TestPartTooLong(t *testing.T) {
	r := elsewhere(t, nil)
	t.Chdir(t.TempDir()) // a path is taken by Linux up to the length that datasets take
	deep := "out" + strings.Repeat("/"+strings.Repeat("x", 240), 16)
	deep += "/" + strings.Repeat("y", 4090-len(deep)-1)
	r.must(os.MkdirAll(filepath.Dir(deep), 0o700))
	r.must(os.WriteFile(deep, nil, 0o600))
	_, refused := errors.AsType[*parcel.Refusal](keepPart(r.ctx, r.dataset(PartsDataset), "uid.train", "worker-0", "."))
	if !refused {
		t.Error("it is tried again")
	}
}

// A stage that goes on without what a member wrote does not leave its job running.
func TestRefusedAndSkipped(t *testing.T) {
	r := elsewhere(t, nil)
	r.put("things", map[string]string{"a": "1"})
	r.apply(`
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    onFailure: Skip
    training: {roles: [{name: worker, replicas: 2, command: [sh, -c, 'test $INDEX = 0 || exec sleep 1000; mkfifo $MUSTER_OUTPUT/p']}]}
`)
	run := r.finish("model")
	if run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[0].Datums.Failed != 1 {
		t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	if err := r.server.Get(r.ctx, client.ObjectKey{Namespace: space, Name: jobName(run, "train")}, &v1alpha1.TrainingJob{}); !apierrors.IsNotFound(err) {
		t.Errorf("its job runs on: %v", err)
	}
}
