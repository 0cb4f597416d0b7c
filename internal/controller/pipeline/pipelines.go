package pipeline

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/dataset/expiry"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Sources makes code ready; see the controller of TrainingJobs.
type Sources interface {
	Ensure(owner, url string) source.State
	Has(owner, digest string) (bool, error)
	Contains(owner, digest, path string) (bool, error)
	// Files are the files of a snapshot, and what names their contents.
	Files(owner, digest string) (map[string]string, error)
}

// Environments makes Python environments ready.
type Environments interface {
	// EnsureFor answers how an environment stands that a stage of a run asks for, and
	// has it made if it is not there. Roles are those of the stage's members, if it says
	// any.
	EnsureFor(run *v1alpha1.PipelineRun, roles []v1alpha1.Role, r environment.Request) environment.State
}

// Machine is what runs need beside an API server: all of it on one machine.
type Machine struct {
	// Store opens the store that has the data of a namespace. It is kept open for
	// whoever asks next.
	Store func(ctx context.Context, namespace string) (*data.Store, error)
	// Foreman gives datums out.
	Foreman *foreman.Foreman
	// Sources and Environments make code and environments ready. Elsewhere Environments
	// may be nil: none are built there.
	Sources      Sources
	Environments Environments
	// Interpreter describes the Python that programs find without an environment
	// of their own.
	Interpreter func(context.Context) (string, error)
	// Run runs a program that a stage of a namespace brings along, as the stage's members
	// do, and returns its output. Nil: the program runs as a child of this process.
	Run func(ctx context.Context, namespace string, argv ...string) (string, error)
	// Transcript writes the output of a job's members, each line behind its member's name if there are
	// several. Nil: members bring it with their files.
	Transcript func(ctx context.Context, job *v1alpha1.TrainingJob, to io.Writer) error
	// Program is the muster that members run as workers, and Worker the one for
	// images, which needs nothing but the kernel.
	Program, Worker string
	// Images says what images are that stages run in. Nil: there are none.
	Images Images
	// Unmountable says why nothing can be mounted for programs that run in no image.
	// Default: it can.
	Unmountable string
	// Shared says that several users share the machine: no folder of root's is shown to a program, and
	// pods reach the foreman by a volume of v1alpha1.StageDriver.
	Shared bool
	// Elsewhere says that stages run on other machines than this one: in images,
	// always, of which DefaultImage is that of stages that name none. Their pods
	// reach the foreman by a volume of v1alpha1.StageDriver.
	Elsewhere    bool
	DefaultImage string
	// Scratch is how much the files of the datums that a worker there has may be. 0: as
	// much as its node has.
	Scratch resource.Quantity
	// Egress says how outputs are copied elsewhere. Nil: wherever a Secret says, all at
	// once.
	Egress *Egress
	// KeepResults is how long after its last use a result stays that no stage's
	// output has. Default: for ever.
	KeepResults time.Duration
	// Swept, when set, hears what was removed.
	Swept func(expiry.Report)
}

// Deps is what the controllers work with.
type Deps struct {
	// Machine is nil where there is no store of data: pipelines are refused there,
	// in words.
	Machine *Machine
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// After is an alarm. Default: [time.After].
	After func(time.Duration) <-chan time.Time
}

// noMachine is why a pipeline cannot run where there is neither.
const noMachine = v1alpha1.ReasonUnsupported + ": pipelines take a store of data, and agents on nodes by which workers are heard, and this cluster lacks one of them: muster install --set agent.create=true, with data.s3, store.s3 or a claim"

// Pipelines starts runs.
type Pipelines struct {
	deps   Deps
	client client.Client
	// live reads from the API server itself, as heads have to be.
	live client.Client
}

// New returns both controllers.
func New(deps Deps) (*Pipelines, *Runs) {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.After == nil {
		deps.After = time.After
	}
	return &Pipelines{deps: deps}, &Runs{deps: deps, active: map[types.UID]*active{}, desk: newDesk(), exports: exports{going: map[string]*export{}}}
}

// SetupWithManager adds the controller to the manager.
func (c *Pipelines) SetupWithManager(mgr ctrl.Manager) error {
	var err error
	if c.client = mgr.GetClient(); c.deps.Machine == nil {
		err = ctrl.NewControllerManagedBy(mgr).Named("pipeline").For(&v1alpha1.Pipeline{}).
			WithOptions(controller.Options{NewQueue: fairqueue.New}).Complete(c)
		if err != nil {
			return fmt.Errorf("setting up the Pipeline controller: %w", err)
		}
		return nil
	}
	if c.live, err = direct(mgr); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("pipeline").
		For(&v1alpha1.Pipeline{}).
		// What one writes no other may.
		Watches(&v1alpha1.Pipeline{}, handler.EnqueueRequestsFromMapFunc(c.readers), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Dataset{}, handler.EnqueueRequestsFromMapFunc(c.readers)).
		Watches(&v1alpha1.PipelineRun{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			run := o.(*v1alpha1.PipelineRun)
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.Pipeline}}}
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, NewQueue: fairqueue.New}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the Pipeline controller: %w", err)
	}
	return nil
}

// readers are the pipelines of the namespace of a dataset or a pipeline: which of them
// read it is found out by looking at them, which costs little.
func (c *Pipelines) readers(ctx context.Context, o client.Object) []reconcile.Request {
	list := &v1alpha1.PipelineList{}
	if err := c.client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil // the cache is stopping
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Reconcile looks at one pipeline.
func (c *Pipelines) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// 1. Read everything.
	p := &v1alpha1.Pipeline{}
	if err := c.client.Get(ctx, req.NamespacedName, p); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s, err := c.observe(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	// 2. Times that have come are commits.
	var again time.Duration
	if s.graph != nil && !p.Spec.Paused {
		if again, err = c.strike(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	// 3. Decide, create, note.
	d := decide(s)
	if d.start != nil {
		if err := c.client.Create(ctx, d.start); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, fmt.Errorf("creating run %s: %w", d.start.Name, err)
		}
	}
	for _, run := range d.forget {
		err := c.client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return ctrl.Result{}, fmt.Errorf("removing run %s, which is over the pipeline's historyLimit: %w", run.Name, err)
		}
	}
	if !apiequality.Semantic.DeepEqual(p.Status, d.status) {
		after := p.DeepCopy()
		after.Status = d.status
		err := c.client.Status().Patch(ctx, after, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		if err := client.IgnoreNotFound(err); err != nil {
			return ctrl.Result{}, fmt.Errorf("noting how the pipeline stands: %w", err)
		}
	}
	if s.problem != "" && c.deps.Machine != nil {
		again = reconsidered // it may become runnable: containerd may start
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// reconsidered is the delay until a pipeline that cannot run is checked again.
const reconsidered = 15 * time.Second

// observe reads what a decision needs.
func (c *Pipelines) observe(ctx context.Context, p *v1alpha1.Pipeline) (*seen, error) {
	s := &seen{pipeline: p, datasets: map[string]bool{}, heads: map[head]string{}, identity: map[string]string{}}
	if s.problem = unreadable(p.Unreadable); s.problem != "" {
		return s, nil
	}
	if c.deps.Machine == nil {
		s.problem = noMachine
		return s, nil
	}
	if s.graph, s.problem = parse(p.Name, &p.Spec, c.deps.Machine); s.problem != "" {
		return s, nil
	}
	var err error
	if s.problem, err = c.contested(ctx, s); err != nil || s.problem != "" {
		s.graph = nil
		return s, err
	}
	list := &v1alpha1.DatasetList{}
	if err := c.client.List(ctx, list, client.InNamespace(p.Namespace)); err != nil {
		return nil, fmt.Errorf("listing datasets: %w", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		s.datasets[d.Name] = true
		for _, b := range d.Spec.Branches {
			s.heads[head{d.Name, string(b.Name)}] = string(b.Commit)
		}
	}
	if err := c.running(ctx, s); err != nil {
		return nil, err
	}
	now, _ := s.inputs()
	for _, in := range changes(s.pipeline.Status.Seen, now, nil) {
		if in.Commit != "" {
			s.identity[in.Commit] = c.identity(ctx, p.Namespace, in)
		}
	}
	return s, nil
}

// contested says in words which branch a pipeline is to write that one writes already which
// was there before.
func (c *Pipelines) contested(ctx context.Context, s *seen) (string, error) {
	list := &v1alpha1.PipelineList{}
	if err := c.client.List(ctx, list, client.InNamespace(s.pipeline.Namespace)); err != nil {
		return "", fmt.Errorf("listing pipelines: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if !before(other, s.pipeline) {
			continue
		}
		graph, err := pipeline.Parse(other.Name, &other.Spec)
		if err != nil {
			continue // it writes nothing
		}
		for _, mine := range s.graph.Stages {
			for _, theirs := range graph.Stages {
				if mine.Dataset == theirs.Dataset && mine.Branch == theirs.Branch {
					return fmt.Sprintf("stage %s: branch %s of dataset %s is written by stage %s of pipeline %s, which was there before: give the stage an output of its own, or delete that pipeline",
						mine.Name, mine.Branch, mine.Dataset, theirs.Name, other.Name), nil
				}
			}
		}
	}
	return "", nil
}

// before says that a pipeline was there before another one, which is not the same.
func before(a, b *v1alpha1.Pipeline) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// unreadable is the problem of a spec that could not be decoded; empty if it could.
func unreadable(why string) string {
	if why == "" {
		return ""
	}
	return "spec: it cannot be read (" + why + "); correct that field and apply it again"
}

// parse is the checked pipeline, or in words why there is none.
func parse(name string, spec *v1alpha1.PipelineSpec, m *Machine) (*pipeline.Graph, string) {
	graph, err := pipeline.Parse(name, spec)
	if err == nil {
		err = supported(graph, m)
	}
	if err != nil {
		return nil, err.Error()
	}
	return graph, ""
}

// running finds out which run of the pipeline has not ended, and which have, and notes one
// that was started and could not be noted.
func (c *Pipelines) running(ctx context.Context, s *seen) error {
	p := s.pipeline
	runs := &v1alpha1.PipelineRunList{}
	if err := c.client.List(ctx, runs, client.InNamespace(p.Namespace)); err != nil {
		return fmt.Errorf("listing runs: %w", err)
	}
	shown := p.Status.LastRun == ""
	for i := range runs.Items {
		run := &runs.Items[i]
		if run.Spec.Pipeline != p.Name || run.Spec.DryRun {
			continue
		}
		shown = shown || run.Name == p.Status.LastRun
		if unnoted(p, run) {
			s.pipeline = p.DeepCopy()
			note(&s.pipeline.Status, run)
		}
		switch {
		case !run.DeletionTimestamp.IsZero():
		case Ended(run.Status.Phase):
			s.ended = append(s.ended, run)
		case s.running == "":
			s.running = run.Name
		}
	}
	if shown || s.running != "" {
		return nil
	}
	// It may have been made a moment ago.
	last := &v1alpha1.PipelineRun{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Status.LastRun}, last)
	if err == nil && !Ended(last.Status.Phase) && last.DeletionTimestamp.IsZero() {
		s.running = last.Name
	}
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("reading run %s: %w", p.Status.LastRun, err)
	}
	return nil
}

// Ended says that a run, or a stage of it, goes on no more.
func Ended(phase v1alpha1.RunPhase) bool {
	return phase == v1alpha1.RunSucceeded || phase == v1alpha1.RunFailed || phase == v1alpha1.RunCancelled
}

// identityLine begins the line of a commit's message that has the identity of the
// run that made it.
const identityLine = "Identity: "

// identity is that of the run that made a commit; empty where none did, or where
// it cannot be read just now: the run that it starts has one of its own then.
func (c *Pipelines) identity(ctx context.Context, namespace string, in v1alpha1.RunInput) string {
	d, err := c.deps.Machine.dataset(ctx, c.live, namespace, in.Dataset)
	if err != nil {
		return ""
	}
	made, err := d.Resolve(ctx, in.Commit)
	if err != nil {
		return ""
	}
	return identityOf(made)
}

func identityOf(made commit.Commit) string {
	for line := range strings.Lines(made.Message) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), identityLine); ok {
			return id
		}
	}
	return ""
}

// direct is a client that reads from the API server itself: what a cache shows of a
// head may be old.
func direct(mgr ctrl.Manager) (client.Client, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS = -1 // nobody is waited for who would have to be spared
	made, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return made, nil
}

// dataset is a dataset of the store of its namespace.
func (m *Machine) dataset(ctx context.Context, server client.Client, namespace, name string) (*data.Dataset, error) {
	store, err := m.Store(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("opening the store of data: %w", err)
	}
	heads := &dataset.Heads{Client: server, Namespace: namespace, Name: name}
	d := store.Dataset(heads)
	heads.Measure = func(ctx context.Context, id digest.ID) (dataset.Size, error) {
		found, err := d.Resolve(ctx, id.String())
		return dataset.Size{Files: found.Tree.Files, Bytes: found.Tree.Bytes}, err
	}
	return d, nil
}

// books are the datasets that a stage of a pipeline is planned from and written to.
func (m *Machine) books(ctx context.Context, server client.Client, namespace, output, name string) (b pipeline.Books, err error) {
	b.ResultsBranch = resultsBranch
	for _, book := range []struct {
		dataset **data.Dataset
		name    string
	}{{&b.Output, output}, {&b.States, pipeline.StatesDataset(name)}, {&b.Results, ResultsDataset}} {
		if *book.dataset, err = m.dataset(ctx, server, namespace, book.name); err != nil {
			return b, err
		}
	}
	return b, nil
}

// timeFormat is how files are named after times.
const timeFormat = "2006-01-02T15:04:05Z"

// ensure makes a dataset that is not there, as the pipeline's.
func (c *Pipelines) ensure(ctx context.Context, p *v1alpha1.Pipeline, name string) error {
	return dataset.Ensure(ctx, c.client, p.Namespace, p.Name, name)
}
