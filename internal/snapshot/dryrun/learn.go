package dryrun

import (
	"context"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/denial"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// The back-off of dry runs after a refusal. It is short at first, because the service
// account of a new namespace appears after a moment.
const (
	firstAsk  = 50 * time.Millisecond
	lastAsk   = 5 * time.Second
	quickAsks = 20
)

// repeats and repeatBurst limit repeated dry runs, in pods and lookups a second for all
// gangs of a namespace. After an acceptance the other gangs of the namespace repeat their
// dry runs at once; frees limits how often, in times a second.
const (
	repeats     = 4
	repeatBurst = 60
	frees       = 1. / 5
)

// Answers are the answers to dry runs, one for each gang and generation.
type Answers struct {
	client client.Client
	gpus   conversion.GPUResources
	// wake is called with a gang's UID when an answer arrives, and when the next dry run
	// is due.
	wake func(types.UID)
	// references looks up the objects that pods name.
	references References
	// slots limits the concurrent dry runs.
	slots *fairqueue.Slots
	// repeats limits the rate of repeated dry runs. frees limits the rate of dry runs
	// that an acceptance causes.
	repeats, frees *fairqueue.Pace

	mu    sync.Mutex
	known map[types.UID]*lesson
	// twins are the dry runs of the last seconds.
	twins map[question]*twins
	wg    sync.WaitGroup
}

// References names the missing objects of a pod, in a sentence; empty if none is missing.
type References interface {
	Missing(ctx context.Context, namespace string, spec *corev1.PodSpec) (string, error)
}

// lesson is the answer for one gang, or its dry run in flight.
type lesson struct {
	namespace  string
	generation int64
	answer     Answer
	ready      bool
	asking     bool
	delay      time.Duration
	asked      int
	again      time.Time
}

// New returns Answers that make dry runs with a client, at most concurrency of them at
// once. They call wake with a gang's UID when its answer arrives, or when its next dry
// run is due.
func New(c client.Client, named References, gpus conversion.GPUResources, wake func(types.UID), concurrency int) *Answers {
	return &Answers{client: c, references: named, gpus: gpus, wake: wake, slots: fairqueue.NewSlots(concurrency),
		repeats: fairqueue.NewPace(repeats, repeatBurst), frees: fairqueue.NewPace(frees, 1), known: map[types.UID]*lesson{}, twins: map[question]*twins{}}
}

// Look returns the cached answer for a gang, and starts a dry run if one is due. It
// returns false without an answer. It does not block.
func (l *Answers) Look(ctx context.Context, g *v1alpha1.Gang, now time.Time) (Answer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[g.UID]
	if k == nil || k.generation != g.Generation {
		k = &lesson{namespace: g.Namespace, generation: g.Generation, delay: firstAsk}
		l.known[g.UID] = k
	}
	if k.open() && !k.asking && !now.Before(k.again) {
		k.asking = true
		l.wg.Add(1)
		go l.ask(ctx, g.DeepCopy(), k)
	}
	return k.answer, k.ready
}

// Forget drops the answer for a deleted gang.
func (l *Answers) Forget(gang types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, gang)
}

// FirmAsks is the number of refusals that make a refusal firm. An API server that has
// just started refuses pods whose objects, such as the service account of a namespace,
// are not in its caches yet.
const FirmAsks = 5

// Asking reports whether a gang has no answer yet, or a refusal that is not firm.
func (l *Answers) Asking() bool {
	return l.some(func(k *lesson) bool { return k.open() && k.asked < FirmAsks || !k.ready })
}

// Open reports whether a gang has no answer yet, or a refusal that may end.
func (l *Answers) Open() bool { return l.some((*lesson).open) }

func (k *lesson) open() bool { return !k.ready || k.answer.passes() }

func (l *Answers) some(is func(*lesson) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.known {
		if is(k) {
			return true
		}
	}
	return false
}

// Hurry makes the next dry runs of a namespace's refused gangs due now, because an
// object that caused refusals has changed. An empty namespace stands for all of them.
func (l *Answers) Hurry(namespace string) {
	l.mu.Lock()
	// A change in one namespace is no reason to ask again for the gangs of others.
	maps.DeleteFunc(l.twins, func(_ question, a *twins) bool { return namespace == "" || a.namespace == namespace })
	var refused []types.UID
	for gang, k := range l.known {
		if k.ready && k.open() && (namespace == "" || k.namespace == namespace) {
			k.again, k.delay = time.Time{}, min(k.delay, time.Second)
			refused = append(refused, gang)
		}
	}
	l.mu.Unlock()
	for _, gang := range refused {
		l.wake(gang)
	}
}

// Wait returns once no dry run is in flight.
func (l *Answers) Wait() { l.wg.Wait() }

// ask makes one dry run for each role and records the answer.
func (l *Answers) ask(ctx context.Context, g *v1alpha1.Gang, k *lesson) {
	defer l.wg.Done()
	answers, errs := l.dryRun(ctx, g)
	answer, known := answerOf(l.gpus, g, answers, errs)
	if known && answer.Refused == "" && !answer.Invalid {
		answer.Missing, known = l.missing(ctx, g, answers)
	}
	news, freed := l.record(g, k, answer, known)
	if freed && l.frees.Allow(g.Namespace, time.Now()) {
		l.Hurry(g.Namespace) // other gangs may have waited for the same object
	}
	if news {
		l.wake(g.UID)
	}
}

// record stores an answer. News reports whether the answer differs from the last one, or
// is not firm yet. Freed reports whether the API server refused the gang before and
// accepts it now.
func (l *Answers) record(g *v1alpha1.Gang, k *lesson, answer Answer, known bool) (news, freed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.asking = false
	before, waited := k.answer, k.ready
	if known {
		k.answer, k.ready = answer, true
	}
	if known && !answer.passes() {
		return true, waited && before.passes()
	}
	now := time.Now()
	after := max(k.delay, l.repeats.Reserve(g.Namespace, len(g.Spec.Roles), now))
	k.again = now.Add(after)
	time.AfterFunc(after+time.Millisecond, func() { l.wake(g.UID) })
	if k.asked++; k.asked > quickAsks {
		k.delay = min(2*k.delay, lastAsk)
	}
	same := waited && before.Refused == answer.Refused && before.Missing == answer.Missing
	return !same || k.asked <= FirmAsks, false
}

// missing names the missing objects of a gang's pods. It returns false if a read fails.
func (l *Answers) missing(ctx context.Context, g *v1alpha1.Gang, pods []*corev1.Pod) (string, bool) {
	for i, p := range pods {
		words, err := l.references.Missing(ctx, g.Namespace, &p.Spec)
		switch {
		case err != nil:
			return "", false
		case words != "" && len(pods) > 1:
			return "role " + g.Spec.Roles[i].Name + " waits: " + words, true
		case words != "":
			return words, true
		}
	}
	return "", true
}

// answerOf converts the API server's answers into roles. It returns false if the API
// server did not answer.
func answerOf(gr conversion.GPUResources, g *v1alpha1.Gang, pods []*corev1.Pod, errs []error) (Answer, bool) {
	var out Answer
	for i, err := range errs {
		r := &g.Spec.Roles[i]
		switch {
		case err == nil:
			role, problem := gr.TiedRole(g, r, &pods[i].Spec)
			if problem != "" {
				return Answer{Unsupported: problem, Invalid: true}, true
			}
			out.Roles = append(out.Roles, role)
		case denial.Never(err):
			return Answer{Refused: "role " + r.Name + ": " + withoutSample(err.Error(), pods[i]), Invalid: true}, true
		case denial.NotNow(err) || apierrors.IsNotFound(err):
			out.Refused = "role " + r.Name + ": " + withoutSample(err.Error(), pods[i])
			// The role as written: a message can name the quota that it would exceed.
			out.Roles = append(out.Roles, gr.GangRole(r, &gr.Sample(g, r).Spec))
		default:
			return Answer{}, false
		}
	}
	return out, true
}

// withoutSample removes the sample pod's name from the API server's message. Users do
// not know that name, and it differs in each dry run.
func withoutSample(words string, p *corev1.Pod) string {
	quoted := regexp.MustCompile(`(pods )?"` + regexp.QuoteMeta(p.GenerateName) + `[^"]*" is `)
	return quoted.ReplaceAllString(words, "its pods are ")
}

// AsWritten returns a gang's roles as written, without a dry run.
func AsWritten(gr conversion.GPUResources, g *v1alpha1.Gang) Answer {
	var out Answer
	for i := range g.Spec.Roles {
		r := &g.Spec.Roles[i]
		role, problem := gr.TiedRole(g, r, &gr.Sample(g, r).Spec)
		out.Roles = append(out.Roles, role)
		if out.Unsupported == "" {
			out.Unsupported = problem
		}
	}
	return out
}

// AsTold is AsWritten with the refusal or the missing objects from the gang's status,
// where the manager writes the result of its dry runs.
func AsTold(gr conversion.GPUResources, g *v1alpha1.Gang) Answer {
	out := AsWritten(gr, g)
	if g.Status.Phase != v1alpha1.GangPending && g.Status.Phase != "" {
		return out
	}
	switch scheduling.Code(g.Status.Reason) {
	case scheduling.CodeRefused:
		out.Refused = strings.TrimPrefix(g.Status.Message, scheduling.Refused{}.Render(nil))
	case scheduling.CodeMissing:
		out.Missing = strings.TrimSuffix(g.Status.Message, scheduling.AfterMissing)
	}
	return out
}

// Answer is the result of the dry runs of a gang.
type Answer struct {
	Roles []scheduling.Role
	// Refused is the API server's message if it refuses the pods; else empty.
	Refused string
	// Missing names the missing objects of the pods, in a sentence.
	Missing string
	// Unsupported names the first field of the pods that Muster does not support; else
	// empty.
	Unsupported string
	// Invalid is true if a later dry run cannot succeed: the refusal is permanent, or a
	// field is unsupported.
	Invalid bool
}

// passes reports whether a refusal may become an acceptance.
func (a Answer) passes() bool { return (a.Refused != "" || a.Missing != "") && !a.Invalid }
