package workshop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/bundle"
	"github.com/muster-dev/muster/internal/environment/notice"
	"github.com/muster-dev/muster/internal/fairqueue"
)

// Store knows which environments there are.
type Store interface {
	// Environment says what is known of a namespace's environment, and counts as
	// use. The error wraps [ErrNotStored] where there is none.
	Environment(ctx context.Context, namespace, key string) (bundle.Packed, error)
}

// Image is what is known of an image.
type Image struct {
	// Digest is what it is now; empty: it is not known yet, or at all.
	Digest string
	// Failed says that asking again is of no use; Message says why, or what is waited
	// for.
	Failed  bool
	Message string
}

// Options are what a Workshop needs. Store and NotStored are required.
type Options struct {
	Store Store
	// NotStored is what the store's errors wrap where it has no such environment.
	NotStored error
	// Index is the address of the index of packages that builds ask, where their
	// requirements name none. Empty: pip's own.
	Index string
	// NodeSelector is that of builds: nodes without Muster's agent will not do.
	NodeSelector map[string]string
	// Most is how many bytes an environment may have. Default: no bound.
	Most int64
	// Limit is how long a build may take. Default: an hour.
	Limit time.Duration
	// Look says what an image is now, and has it brought to where members will run: to
	// this machine, on which builds and environments are, too. What it is counts, then,
	// and not what it is called. It does not block for long. Nil: this is a cluster, and
	// images count by their names.
	Look func(image string) Image
	// Variables are those of builds beside their own.
	Variables []corev1.EnvVar
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Workshop has environments built. It is asked for each job that is being
// prepared and for each stage of a run that is being planned, and tells when to ask
// again.
type Workshop struct {
	options Options
	client  client.Client
	// board is told of what no watch shows, too: the store, and an API server that
	// did not take a write.
	board *notice.Board
}

// build is an environment that is asked for.
type build struct {
	key, image, python, requirements string
	// architecture is that of the nodes that the members are for; empty: they do not
	// say.
	architecture string
	// packages are those of the code that the requirements name, and snapshot has them.
	packages environment.Packages
	snapshot string
	// secret names the Secret of the namespace with the netrc of the build.
	secret string
}

const (
	// patience bounds what one question asks the store and the API server.
	patience = 10 * time.Second
	// lookAgain is how soon the store is looked at again.
	lookAgain = time.Second
)

// New returns a workshop, which does nothing until it is set up.
func New(o Options) *Workshop {
	if o.Limit <= 0 {
		o.Limit = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Workshop{options: o, board: notice.New()}
}

// SetupWithManager has builds be watched, in the replica that is elected.
func (w *Workshop) SetupWithManager(mgr ctrl.Manager) error {
	w.client = mgr.GetClient()
	if err := mgr.Add(manager.RunnableFunc(w.run)); err != nil {
		return fmt.Errorf("setting up what builds environments: %w", err)
	}
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelBuild] != "" })
	err := ctrl.NewControllerManagedBy(mgr).Named("workshop").For(&corev1.Pod{}, builder.WithPredicates(ours)).
		WithOptions(controller.Options{NewQueue: fairqueue.New}).Complete(w)
	if err != nil {
		return fmt.Errorf("setting up what builds environments: %w", err)
	}
	return nil
}

// Reconcile tells that a build is further.
func (w *Workshop) Reconcile(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
	w.board.Post(r.String())
	return ctrl.Result{}, nil
}

// run hands on news until ctx ends.
func (w *Workshop) run(ctx context.Context) error {
	w.board.RunAsking(ctx, lookAgain)
	return nil
}

// Changes tells when Ensure may have a new answer.
func (w *Workshop) Changes() <-chan string { return w.board.Changes() }

// customer is who asks for an environment.
type customer struct {
	namespace string
	// owner has the garbage collector take the build once nobody is left that asked
	// for it.
	owner metav1.OwnerReference
	// roles are those of the members that it is for.
	roles []v1alpha1.Role
}

// Ensure answers how the environment of a job stands, and has it built if it is
// not there. It asks the store and writes at most one pod, within seconds.
func (w *Workshop) Ensure(job *v1alpha1.TrainingJob, r environment.Request) environment.State {
	return w.ensure(customer{job.Namespace, ownedBy("TrainingJob", job), job.Spec.Roles}, r)
}

// EnsureFor is the same for a stage of a run, whose job is made once it is known what
// there is to compute. Roles are those of its members, if it says any.
func (w *Workshop) EnsureFor(run *v1alpha1.PipelineRun, roles []v1alpha1.Role, r environment.Request) environment.State {
	return w.ensure(customer{run.Namespace, ownedBy("PipelineRun", run), roles}, r)
}

func ownedBy(kind string, o metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID()}
}

func (w *Workshop) ensure(c customer, r environment.Request) environment.State {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	identity, unknown := w.identify(c.namespace, r.Image)
	if unknown != nil {
		return *unknown
	}
	b, err := order(r, identity, c.roles)
	if err != nil {
		return environment.State{Phase: environment.Failed, Message: environment.Mask(err.Error())}
	}
	packed, err := w.options.Store.Environment(ctx, c.namespace, b.key)
	switch {
	case err == nil:
		w.clear(ctx, c.namespace, b)
		return environment.State{
			Phase: environment.Ready, Key: b.key, SearchPath: packed.SearchPath, Message: "ready, Python " + packed.Python,
			Lock: &environment.Lock{Python: packed.Python, Platform: packed.Platform, Packages: packed.Packages, Hash: packed.Hash},
		}
	case errors.Is(err, bundle.ErrUnwanted):
		return environment.State{Phase: environment.Failed, Key: b.key, Message: "it was built, and cannot be used: " + err.Error()}
	case !errors.Is(err, w.options.NotStored):
		w.board.Untold()
		return environment.State{Phase: environment.Building, Key: b.key, Message: err.Error() + "; trying again"}
	}
	pod, err := w.find(ctx, c.namespace, b)
	if err != nil {
		w.board.Untold()
		return environment.State{Phase: environment.Building, Key: b.key, Message: err.Error() + "; trying again"}
	}
	state, do := decide(observed{build: b, pod: pod, here: w.options.here(), now: w.options.Now()})
	if state.Phase == environment.Building && (pod == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodPending) {
		w.board.Untold() // time passes, which nobody tells
	}
	if err := w.act(ctx, c, b, pod, do); err != nil {
		w.board.Untold()
		state.Message = err.Error() + "; trying again"
	}
	return state
}

// here says that builds and environments are on this machine, and not on a cluster.
func (o Options) here() bool { return o.Look != nil }

// identify is what an image counts as, in the key of an environment of a namespace, or
// how it stands with what is not known yet. On one machine the environments of all
// namespaces are in one place: the key keeps them, and who builds them, apart.
func (w *Workshop) identify(namespace, name string) (identity string, unknown *environment.State) {
	if !w.options.here() || name == "" {
		return name, nil
	}
	is := w.options.Look(name)
	switch {
	case is.Failed:
		return "", &environment.State{Phase: environment.Failed, Message: is.Message}
	case is.Digest == "":
		w.board.Untold()
		return "", &environment.State{Phase: environment.Building, Message: is.Message}
	}
	return namespace + "/" + is.Digest, nil
}

// order reads what is asked for, in an image that counts by an identity, for members of
// these roles.
func order(r environment.Request, identity string, roles []v1alpha1.Role) (build, error) {
	if r.Path != "" {
		return build{}, fmt.Errorf("path: %s is a folder of one machine's own programs, and members run in an image; put the environment into an image and name it (environment.image; muster run --image IMAGE)", r.Path)
	}
	if r.Image == "" {
		return build{}, errors.New("there is no image to install the requirements in: name one (environment.image; muster run --image IMAGE), or have one set for all (muster install --set defaultImage=IMAGE)")
	}
	text, err := environment.Normalise(r.Requirements)
	if err != nil {
		return build{}, err
	}
	architecture, err := architectureOf(roles)
	if err != nil {
		return build{}, err
	}
	contents, err := r.Contents(text)
	if err != nil {
		return build{}, err
	}
	words := []string{"image/1", identity, r.Python, text}
	if architecture != "" {
		words = append(words, architecture)
	}
	sum := sha256.Sum256([]byte(strings.Join(append(words, contents...), "\x00")))
	b := build{key: hex.EncodeToString(sum[:]), image: r.Image, python: r.Python, architecture: architecture, snapshot: r.Code}
	_, b.secret, _ = strings.Cut(r.Secret, "/")
	b.requirements, b.packages = environment.Place(text, packagesIn)
	return b, nil
}

// architectureOf is that of the nodes for which all roles ask that ask for one: what is
// compiled runs on no other.
func architectureOf(roles []v1alpha1.Role) (string, error) {
	found, who := "", ""
	for i := range roles {
		t := roles[i].Template
		if t == nil || t.Spec.NodeSelector[corev1.LabelArchStable] == "" {
			continue
		}
		here := t.Spec.NodeSelector[corev1.LabelArchStable]
		if found != "" && here != found {
			return "", fmt.Errorf("roles %s and %s want nodes of different architectures (%s and %s), and an environment is for one of them: give them the same nodeSelector %s, or have the packages in an image of both",
				who, roles[i].Name, found, here, corev1.LabelArchStable)
		}
		found, who = here, roles[i].Name
	}
	return found, nil
}

func (w *Workshop) find(ctx context.Context, namespace string, b build) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: nameOf(b.key)}, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no build is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", nameOf(b.key), err)
	}
	return pod, nil
}

// act does what was decided about a build's pod. One that goes on is the
// customer's, too, from here on.
func (w *Workshop) act(ctx context.Context, c customer, b build, pod *corev1.Pod, do action) error {
	switch {
	case do == create:
		err := w.client.Create(ctx, w.options.podFor(c, b))
		if err != nil && !apierrors.IsAlreadyExists(err) { // another asked at the same time
			return fmt.Errorf("making the pod that builds it: %w", err)
		}
	case do == remove:
		return w.remove(ctx, pod)
	case pod.DeletionTimestamp.IsZero() && builds(pod, b.key) && !c.owns(pod):
		after := pod.DeepCopy()
		after.OwnerReferences = append(after.OwnerReferences, c.owner)
		err := w.client.Patch(ctx, after, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("sharing the build, pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// clear removes the build of what is stored.
func (w *Workshop) clear(ctx context.Context, namespace string, b build) {
	pod, err := w.find(ctx, namespace, b)
	if err != nil || pod == nil || !builds(pod, b.key) || !pod.DeletionTimestamp.IsZero() {
		return
	}
	_ = w.remove(ctx, pod) // else it goes with those that asked for it
}

func (w *Workshop) remove(ctx context.Context, pod *corev1.Pod) error {
	err := w.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing an earlier build, pod %s: %w", pod.Name, err)
	}
	return nil
}

func (c customer) owns(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == c.owner.UID })
}
