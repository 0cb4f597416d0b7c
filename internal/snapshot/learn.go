package snapshot

import (
	"context"
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

// lessons are the answers to dry runs, one for each gang and generation.
type lessons struct {
	client client.Client
	gpus   conversion.GPUResources
	// wake is called with a gang's UID when an answer is in, and when it is time
	// to ask again.
	wake func(types.UID)
	// references looks up the objects that pods name.
	references references
	// slots bounds the questions in flight.
	slots *fairqueue.Slots

	mu    sync.Mutex
	known map[types.UID]*lesson
	// twins are the questions of the last seconds.
	twins map[question]*twins
	wg    sync.WaitGroup
}

// references names the missing objects of a pod, in a sentence; empty: none.
type references interface {
	Missing(ctx context.Context, namespace string, spec *corev1.PodSpec) (string, error)
}

// lesson is one answer, or the wait for it.
type lesson struct {
	generation int64
	answer     learned
	ready      bool
	asking     bool
	delay      time.Duration
	asked      int
	again      time.Time
}

func newLessons(c client.Client, named references, gpus conversion.GPUResources, wake func(types.UID), concurrency int) *lessons {
	return &lessons{client: c, references: named, gpus: gpus, wake: wake, slots: fairqueue.NewSlots(concurrency), known: map[types.UID]*lesson{}, twins: map[question]*twins{}}
}

// look returns what is known of a gang's pods, and asks if nothing is. It does
// not block.
func (l *lessons) look(ctx context.Context, g *v1alpha1.Gang, now time.Time) (learned, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[g.UID]
	if k == nil || k.generation != g.Generation {
		k = &lesson{generation: g.Generation, delay: firstAsk}
		l.known[g.UID] = k
	}
	due := k.open() && !now.Before(k.again)
	if due && !k.asking && !now.Before(k.again) {
		k.asking = true
		l.wg.Add(1)
		go l.ask(ctx, g.DeepCopy(), k)
	}
	return k.answer, k.ready
}

// forget drops the answer for a gang that is no more.
func (l *lessons) forget(gang types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, gang)
}

// firmAsks is how many refusals are a no: an API server that has just been started
// refuses what it has not heard of yet, such as the service account of a namespace.
const firmAsks = 5

// asking reports that of a gang there is no answer yet, or a first no.
func (l *lessons) asking() bool {
	return l.some(func(k *lesson) bool { return k.open() && k.asked < firmAsks || !k.ready })
}

// open reports whether a gang has no answer yet, or a refusal that may end.
func (l *lessons) open() bool { return l.some((*lesson).open) }

func (k *lesson) open() bool { return !k.ready || k.answer.passes() }

func (l *lessons) some(is func(*lesson) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.known {
		if is(k) {
			return true
		}
	}
	return false
}

// hurry asks again soon for what was refused: what refused it has changed.
func (l *lessons) hurry() {
	l.mu.Lock()
	clear(l.twins)
	var refused []types.UID
	for gang, k := range l.known {
		if k.ready && k.open() {
			k.again, k.delay, k.asked = time.Time{}, firstAsk, 0
			refused = append(refused, gang)
		}
	}
	l.mu.Unlock()
	for _, gang := range refused {
		l.wake(gang)
	}
}

// wait returns once no question is in flight.
func (l *lessons) wait() { l.wg.Wait() }

// ask makes one dry run for each role and records what came of it.
func (l *lessons) ask(ctx context.Context, g *v1alpha1.Gang, k *lesson) {
	defer l.wg.Done()
	answers, errs := l.dryRun(ctx, g)
	answer, known := answerOf(l.gpus, g, answers, errs)
	if known && answer.refused == "" && !answer.invalid {
		answer.missing, known = l.missing(ctx, g, answers)
	}

	l.mu.Lock()
	k.asking = false
	if known {
		k.answer, k.ready = answer, true
	}
	if !known || answer.passes() {
		k.again = time.Now().Add(k.delay)
		time.AfterFunc(k.delay+time.Millisecond, func() { l.wake(g.UID) })
		if k.asked++; k.asked > quickAsks {
			k.delay = min(2*k.delay, lastAsk)
		}
	}
	l.mu.Unlock()
	l.wake(g.UID)
}

// missing names the objects of a gang's pods that are missing. It is false if a reader
// does not answer.
func (l *lessons) missing(ctx context.Context, g *v1alpha1.Gang, pods []*corev1.Pod) (string, bool) {
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
func answerOf(gr conversion.GPUResources, g *v1alpha1.Gang, pods []*corev1.Pod, errs []error) (learned, bool) {
	var out learned
	for i, err := range errs {
		r := &g.Spec.Roles[i]
		switch {
		case err == nil:
			role, problem := gr.TiedRole(g, r, &pods[i].Spec)
			if problem != "" {
				return learned{unsupported: problem, invalid: true}, true
			}
			out.roles = append(out.roles, role)
		case denial.Never(err):
			return learned{refused: "role " + r.Name + ": " + withoutSample(err.Error(), pods[i]), invalid: true}, true
		case denial.NotNow(err) || apierrors.IsNotFound(err):
			out.refused = "role " + r.Name + ": " + withoutSample(err.Error(), pods[i])
			// As it is written: a quota that it would break can be named by it.
			out.roles = append(out.roles, gr.GangRole(r, &gr.Sample(g, r).Spec))
		default:
			return learned{}, false
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

// asWritten are a gang's roles as they are written, without the API server's
// word on them.
func asWritten(gr conversion.GPUResources, g *v1alpha1.Gang) learned {
	var out learned
	for i := range g.Spec.Roles {
		r := &g.Spec.Roles[i]
		role, problem := gr.TiedRole(g, r, &gr.Sample(g, r).Spec)
		out.roles = append(out.roles, role)
		if out.unsupported == "" {
			out.unsupported = problem
		}
	}
	return out
}

// asTold is asWritten, with the facts in the gang's status that a live loop has learned:
// that the API server refuses its pods, or that they name a missing object.
func asTold(gr conversion.GPUResources, g *v1alpha1.Gang) learned {
	out := asWritten(gr, g)
	if g.Status.Phase != v1alpha1.GangPending && g.Status.Phase != "" {
		return out
	}
	switch scheduling.Code(g.Status.Reason) {
	case scheduling.CodeRefused:
		out.refused = strings.TrimPrefix(g.Status.Message, scheduling.Refused{}.Render(nil))
	case scheduling.CodeMissing:
		out.missing = strings.TrimSuffix(g.Status.Message, scheduling.AfterMissing)
	}
	return out
}
