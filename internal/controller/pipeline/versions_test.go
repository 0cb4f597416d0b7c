package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// token makes or changes a Secret with one value.
func (r *rig) token(value string) {
	r.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "token"}, Data: map[string][]byte{"key": []byte(value)}}
	have := &corev1.Secret{}
	if r.server.Get(r.ctx, client.ObjectKeyFromObject(s), have) != nil {
		r.must(r.server.Create(r.ctx, s))
		return
	}
	have.Data = s.Data
	r.must(r.server.Update(r.ctx, have))
}

// said is a pipeline whose outputs tell what the variable was.
const said = `
metadata: {name: said}
spec:
  stages:
  - name: say
    input: {dataset: things, glob: "/*"}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key%s}}}]
    command: [sh, -c, 'echo $TOKEN > $MUSTER_OUTPUT/$MUSTER_DATUM']
`

// saidTogether is the same by members that train.
const saidTogether = `
metadata: {name: said}
spec:
  stages:
  - name: say
    input: {dataset: things}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key}}}]
    training: {roles: [{name: worker, replicas: 1, command: [sh, -c, 'echo $TOKEN > $MUSTER_OUTPUT/a']}]}
`

// places are where stages run: on the machine, or in pods that share nothing with it.
var places = map[string]func(*testing.T, *rig) *rig{
	"here": func(t *testing.T, before *rig) *rig { return newRig(t, before) }, "elsewhere": elsewhere,
}

// expect takes the run to its end, and looks at what the stage says and how many datums
// it computed.
func (r *rig) expect(value string, computes int64) *v1alpha1.PipelineRun {
	r.Helper()
	run := r.succeed("said", computes)
	if diff := cmp.Diff(map[string]string{"a": value + "\n"}, r.files("said-say")); diff != "" {
		r.Errorf("%s: %s", run.Status.Message, diff)
	}
	return run
}

// rerun starts a run that reads a commit which differs in nothing.
func (r *rig) rerun() {
	r.Helper()
	r.put("things", map[string]string{"b": "2"})
	r.put("things", map[string]string{"b": ""})
}

// A variable from a Secret counts by the Secret's version, and is what it is now.
func TestSecretCounts(t *testing.T) {
	for where, place := range places {
		for kind, text := range map[string]string{"datums": fmt.Sprintf(said, ""), "training": saidTogether} {
			t.Run(where+" "+kind, func(t *testing.T) {
				r := place(t, nil)
				r.token("one")
				r.put("things", map[string]string{"a": "1"})
				r.apply(text)
				r.expect("one", 1)
				r.rerun()
				r.expect("one", 0)
				r.token("dos")
				r.rerun()
				run := r.expect("dos", 1)
				if why := run.Status.Stages[0].Why; !strings.Contains(why, "Secret token, key key, version") || strings.Contains(why, "dos") {
					t.Errorf("why: %q", why)
				}
				job := &v1alpha1.TrainingJob{}
				r.must(r.server.Get(r.ctx, client.ObjectKey{Namespace: space, Name: jobName(run, "say")}, job))
				if versions, ok := versionsOf(job); !ok || len(versions) != 1 || strings.Contains(fmt.Sprint(job), "dos") {
					t.Errorf("its job: %v, %+v", versions, job)
				}
			})
		}
	}
}

// declares has the Secret say by what name its values count.
func (r *rig) declares(name string) {
	r.Helper()
	have := &corev1.Secret{}
	r.must(r.server.Get(r.ctx, client.ObjectKey{Namespace: space, Name: "token"}, have))
	have.Annotations = map[string]string{v1alpha1.AnnotationCountsAs: name}
	r.must(r.server.Update(r.ctx, have))
}

// A Secret that says by what name it counts may change: what was computed by that name is
// taken, until it says another one.
func TestSecretCountsAsItSays(t *testing.T) {
	for where, place := range places {
		for kind, text := range map[string]string{"datums": fmt.Sprintf(said, ""), "training": saidTogether} {
			t.Run(where+" "+kind, func(t *testing.T) {
				r := place(t, nil)
				r.token("one")
				r.declares("spring")
				r.put("things", map[string]string{"a": "1"})
				r.apply(text)
				r.expect("one", 1)
				r.token("dos")
				r.rerun()
				r.expect("one", 0)
				r.declares("summer")
				r.rerun()
				run := r.expect("dos", 1)
				if why := run.Status.Stages[0].Why; !strings.Contains(why, "declared spring -> Secret token, key key, declared summer") {
					t.Errorf("why: %q", why)
				}
			})
		}
	}
}

// A name that is none fails the run in words: when it is planned, and when a worker begins.
func TestSecretCountsAsNothing(t *testing.T) {
	for what, name := range map[string]string{"empty": "", "two lines": "a\nb", "long": strings.Repeat("x", 129)} {
		for when, late := range map[string]bool{"planned": false, "begun": true} {
			t.Run(what+", when it is "+when, func(t *testing.T) {
				r := elsewhere(t, nil)
				r.token("one")
				r.put("things", map[string]string{"a": "1"})
				if late {
					r.hired = func() bool { r.declares(name); return true }
				} else {
					r.declares(name)
				}
				r.apply(fmt.Sprintf(said, ""))
				run := r.finish("said")
				if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "Secret token: annotation muster.dev/counts-as is ") {
					t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
				}
			})
		}
	}
}

// Workers that begin after the Secret has changed compute nothing: others do, of a stage
// that was planned again.
func TestSecretChangesBeforeWorkersBegin(t *testing.T) {
	for name, c := range map[string]struct {
		place func(*testing.T, *rig) *rig
		text  string
	}{
		"here": {places["here"], fmt.Sprintf(said, "")}, "elsewhere": {elsewhere, fmt.Sprintf(said, "")}, "training": {elsewhere, saidTogether},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.place(t, nil)
			r.token("one")
			r.put("things", map[string]string{"a": "1"})
			r.hired = func() bool {
				if r.started == 0 {
					r.token("dos")
				}
				return true
			}
			r.apply(c.text)
			r.expect("dos", 1)
			if r.started != 2 {
				t.Errorf("%d jobs were run, want 2: one that began too late, and another", r.started)
			}
			r.rerun()
			r.expect("dos", 0)
		})
	}
}

// Muster is started anew, or another manager leads, when the Secret has changed: the
// workers of before are not heard any more.
func TestSecretChangesBetweenManagers(t *testing.T) {
	for where, place := range places {
		t.Run(where, func(t *testing.T) {
			before := place(t, nil)
			before.token("one")
			before.put("things", map[string]string{"a": "1"})
			before.apply(strings.Replace(fmt.Sprintf(said, ""), "echo", "test $TOKEN = dos || exec sleep 1000; echo", 1))
			run := before.finishUnless("said", func(*v1alpha1.PipelineRun) bool { return before.started > 0 })
			job := &v1alpha1.TrainingJob{}
			before.must(before.server.Get(before.ctx, client.ObjectKey{Namespace: space, Name: jobName(run, "say")}, job))
			before.token("dos")
			if where == "elsewhere" {
				before.disk = "another"
			}
			after := place(t, before)
			after.jobs[job.Name], after.ids[job.Name] = before.jobs[job.Name], before.ids[job.Name]
			run = after.expect("dos", 1)
			if after.started != 1 {
				t.Errorf("%d jobs were run, want 1", after.started)
			}
			if run.Status.Stages[0].Datums.Failed != 0 {
				t.Errorf("%+v", run.Status.Stages[0])
			}
		})
	}
}

// Members that train keep the values with which they began, also under another manager.
func TestSecretChangesWhileMembersTrain(t *testing.T) {
	before := elsewhere(t, nil)
	before.token("one")
	before.put("things", map[string]string{"a": "1"})
	gate := t.TempDir() + "/gate"
	before.apply(strings.Replace(saidTogether, "echo", "until test -e "+gate+"; do sleep 0.05; done; echo", 1))
	run := before.finishUnless("said", func(run *v1alpha1.PipelineRun) bool {
		if before.started == 0 {
			return false
		}
		view, err := before.dataset(PartsDataset).At(before.ctx, workName(run, "say"))
		return err == nil && before.texts(view)[".began/worker-0"] != ""
	})
	before.token("dos")
	before.disk = "another"
	after := elsewhere(t, before)
	job := &v1alpha1.TrainingJob{}
	after.must(after.server.Get(after.ctx, client.ObjectKey{Namespace: space, Name: jobName(run, "say")}, job))
	graph, problem := parse(run.Spec.Pipeline, &v1alpha1.PipelineSpec{Stages: run.Spec.Stages}, after.machine)
	if problem != "" {
		t.Fatal(problem)
	}
	active := &step{run: run, stage: graph.Stages[0]}
	means, err := after.runs.resolve(after.ctx, run, active.stage)
	after.must(err)
	if began, _ := versionsOf(job); len(began) != 1 || cmp.Diff(began, means.versions) != "" {
		t.Errorf("planned by %v, and they began with %v", means.versions, began)
	}
	after.must(after.runs.dismissFormer(after.ctx, active, means))
	after.must(after.server.Get(after.ctx, client.ObjectKeyFromObject(job), job)) // it is still there
}

// What is missing, optional or not to be read.
func TestSecretsThatAreNotThere(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		r := elsewhere(t, nil)
		r.put("things", map[string]string{"a": "1"})
		r.apply(fmt.Sprintf(said, ""))
		if run := r.finish("said"); run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "variable TOKEN: Secret token, which it comes from, was not found") {
			t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
		}
	})
	t.Run("optional", func(t *testing.T) {
		r := elsewhere(t, nil)
		r.put("things", map[string]string{"a": "1"})
		r.apply(fmt.Sprintf(said, ", optional: true"))
		r.expect("", 1)
		r.token("there")
		r.rerun()
		r.expect("there", 1)
	})
	t.Run("optional, and there before workers begin", func(t *testing.T) {
		r := elsewhere(t, nil)
		r.put("things", map[string]string{"a": "1"})
		r.hired = func() bool {
			if r.started == 0 {
				r.token("there")
			}
			return true
		}
		r.apply(fmt.Sprintf(said, ", optional: true"))
		if r.expect("there", 1); r.started != 2 {
			t.Errorf("%d jobs were run, want 2", r.started)
		}
	})
	t.Run("forbidden", func(t *testing.T) {
		r := elsewhere(t, nil)
		r.token("one")
		may := false
		watched, ok := r.server.(client.WithWatch)
		if !ok {
			t.Fatal("the fake client cannot be watched")
		}
		r.runs.live = interceptor.NewClient(watched, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				switch o.(type) {
				case *corev1.Secret:
					t.Error("what is in the Secret was read")
				case *metav1.PartialObjectMetadata:
					if !may {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
					}
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		r.put("things", map[string]string{"a": "1"})
		r.apply(fmt.Sprintf(said, ""))
		run := r.finishUnless("said", func(run *v1alpha1.PipelineRun) bool { return strings.Contains(run.Status.Message, "no right") })
		const says = "`kubectl -n team create rolebinding muster-pipelines-secrets --clusterrole=muster-pipelines-secrets --serviceaccount=muster-system:muster-manager`"
		if run.Status.Phase != v1alpha1.RunPlanning || !strings.Contains(run.Status.Message, says) {
			t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
		}
		dry := &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "said-would", UID: r.uid()}, Spec: run.Spec}
		dry.Spec.DryRun = true
		r.must(r.server.Create(r.ctx, dry))
		if dry = r.step(dry.Name); dry.Status.Phase != v1alpha1.RunFailed || !strings.Contains(dry.Status.Message, says) {
			t.Errorf("who asks what it would compute is told: %s: %s", dry.Status.Phase, dry.Status.Message)
		}
		may = true
		r.expect("one", 1)
	})
}
