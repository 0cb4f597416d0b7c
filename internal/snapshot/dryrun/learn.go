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

// The back-off of asking again after a refusal: at first short, because the
// service account of a new namespace takes a moment to appear.
const (
	firstAsk  = 50 * time.Millisecond
	lastAsk   = 5 * time.Second
	quickAsks = 20
)

// The pace of asking again, in pods and lookups a second for all gangs of a namespace; and
// how often, at most, one acceptance makes the other gangs of the namespace ask at once.
const (
	repeats     = 4
	repeatBurst = 60
	frees       = 1. / 5
)

// Answers are the answers to dry runs, one for each gang and generation.
type Answers struct {
	client client.Client
	gpus   conversion.GPUResources
	// wake is called with a gang's UID when an answer is in, and when it is time
	// to ask again.
	wake func(types.UID)
	// references looks up the objects that pods name.
	references References
	// slots bounds the questions in flight.
	slots *fairqueue.Slots
	// repeats paces the questions that are asked again. Frees paces the questions that an
	// acceptance causes.
	repeats, frees *fairqueue.Pace

	mu    sync.Mutex
	known map[types.UID]*lesson
	// twins are the questions of the last seconds.
	twins map[question]*twins
	wg    sync.WaitGroup
}

// References names the missing objects of a pod, in a sentence; empty: none.
type References interface {
	Missing(ctx context.Context, namespace string, spec *corev1.PodSpec) (string, error)
}

// lesson is one answer, or the wait for it.
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

// New returns Answers that ask by a client, at most so many at once. Wake is called
// with the UID of a gang whose answer is in, or is to be asked for again.
func New(c client.Client, named References, gpus conversion.GPUResources, wake func(types.UID), concurrency int) *Answers {
	return &Answers{client: c, references: named, gpus: gpus, wake: wake, slots: fairqueue.NewSlots(concurrency),
		repeats: fairqueue.NewPace(repeats, repeatBurst), frees: fairqueue.NewPace(frees, 1), known: map[types.UID]*lesson{}, twins: map[question]*twins{}}
}

// Look returns what is known of a gang's pods, and asks if nothing is. It does
// not block.
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

// Forget drops the answer for a gang that is no more.
func (l *Answers) Forget(gang types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, gang)
}

// FirmAsks is how many refusals are a no: an API server that has just been started
// refuses what it has not heard of yet, such as the service account of a namespace.
const FirmAsks = 5

// Asking reports that of a gang there is no answer yet, or a first no.
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

// Hurry asks again soon for the gangs that were refused in a namespace, or in all
// namespaces if it is empty: an object that refused them has changed.
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

// Wait returns once no question is in flight.
func (l *Answers) Wait() { l.wg.Wait() }

// ask makes one dry run for each role and records what came of it.
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

// record enters an answer. News reports whether the answer differs from the last one, or
// the gang is still new. Freed reports whether the gang was refused before and is not now.
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

// missing names the objects of a gang's pods that are missing. It is false if a reader
// does not answer.
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

// answerOf turns the answers into roles. It is false if the API server gave none.
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
			// As it is written: a quota that it would break can be named by it.
			out.Roles = append(out.Roles, gr.GangRole(r, &gr.Sample(g, r).Spec))
		default:
			return Answer{}, false
		}
	}
	return out, true
}

// withoutSample takes the sample pod's name, which nobody knows and which is
// another each time, out of what the API server said of it.
func withoutSample(words string, p *corev1.Pod) string {
	quoted := regexp.MustCompile(`(pods )?"` + regexp.QuoteMeta(p.GenerateName) + `[^"]*" is `)
	return quoted.ReplaceAllString(words, "its pods are ")
}

// AsWritten are a gang's roles as they are written, without the API server's
// word on them.
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

// AsTold is AsWritten, with the facts in the gang's status that a live loop has learned:
// that the API server refuses its pods, or that they name a missing object.
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

// Answer is what the API server would make of a gang's pods.
type Answer struct {
	Roles []scheduling.Role
	// Refused is what it said if it would not accept them.
	Refused string
	// Missing names the missing objects of the pods, in a sentence.
	Missing string
	// Unsupported is what of the pods cannot be honoured, by field; empty if all
	// can.
	Unsupported string
	// Invalid is true if it never will, or they never can.
	Invalid bool
}

// passes reports whether a refusal may become an acceptance.
func (a Answer) passes() bool { return (a.Refused != "" || a.Missing != "") && !a.Invalid }
