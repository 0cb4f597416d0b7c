package dryrun

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// twinsFor is the time for which twins share an acceptance: users submit thousands of
// equal jobs together.
const twinsFor = 2 * time.Second

// twins is a dry run that several gangs share. Once done is closed, pods has the
// accepted pods, or is nil after a refusal.
type twins struct {
	namespace string
	asked     time.Time
	done      chan struct{}
	pods      []*corev1.Pod
}

// question is the hash of a gang's pods without the gang's name: the key of twins.
type question [sha256.Size]byte

// dryRun makes the dry runs of a gang, or returns the pods of a twin's recent dry runs.
// Gangs share acceptances only: after a refusal each gang makes its own dry runs.
func (l *Answers) dryRun(ctx context.Context, g *v1alpha1.Gang) ([]*corev1.Pod, []error) {
	q, ok := l.question(g)
	if !ok {
		return l.dryRunOf(ctx, g)
	}
	a, mine := l.join(q, g.Namespace)
	if !mine {
		select {
		case <-a.done:
		case <-ctx.Done():
		}
		if ctx.Err() == nil && a.pods != nil {
			return a.pods, make([]error, len(a.pods))
		}
		return l.dryRunOf(ctx, g)
	}
	defer close(a.done)
	pods, errs := l.dryRunOf(ctx, g)
	for _, err := range errs {
		if err != nil {
			l.drop(q, a)
			return pods, errs
		}
	}
	a.pods = pods
	return pods, errs
}

// join returns the twins of a question. Mine reports whether the caller must make the
// dry runs.
func (l *Answers) join(q question, namespace string) (a *twins, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if a := l.twins[q]; a != nil && now.Sub(a.asked) < twinsFor {
		return a, false
	}
	for other, a := range l.twins {
		if now.Sub(a.asked) >= twinsFor {
			delete(l.twins, other)
		}
	}
	a = &twins{namespace: namespace, asked: now, done: make(chan struct{})}
	l.twins[q] = a
	return a, true
}

// drop removes refused twins, so that the next gang makes its own dry runs.
func (l *Answers) drop(q question, a *twins) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.twins[q] == a {
		delete(l.twins, q)
	}
}

// question returns the hash of a gang's sample pods. It replaces the gang's name in the
// fields that Muster sets. It returns false for a pod that it cannot encode.
func (l *Answers) question(g *v1alpha1.Gang) (q question, ok bool) {
	sum := sha256.New()
	to := json.NewEncoder(sum)
	if to.Encode(g.Namespace) != nil {
		return q, false
	}
	for i := range g.Spec.Roles {
		p := l.gpus.Sample(g, &g.Spec.Roles[i])
		p.GenerateName, p.OwnerReferences = "", nil
		anonymous(p, g.Name)
		if to.Encode(p) != nil {
			return q, false
		}
	}
	return question(sum.Sum(nil)), true
}

// nameless replaces a gang's name. It is not a valid name.
const nameless = "*"

// anonymous replaces the gang's name in the fields of a pod that Muster sets.
func anonymous(p *corev1.Pod, gang string) {
	if p.Labels[v1alpha1.LabelJob] == gang {
		p.Labels[v1alpha1.LabelJob] = nameless
	}
	for i := range p.Spec.Volumes {
		if claim := p.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			if rest, its := strings.CutPrefix(claim.ClaimName, gang+"-"); its {
				claim.ClaimName = nameless + rest
			}
		}
	}
	for i := range p.Spec.Containers {
		for k := range p.Spec.Containers[i].Env {
			if env := &p.Spec.Containers[i].Env[k]; env.Name == v1alpha1.EnvJob && env.Value == gang {
				env.Value = nameless
			}
		}
	}
}

// dryRunOf makes one dry run for each role.
func (l *Answers) dryRunOf(ctx context.Context, g *v1alpha1.Gang) ([]*corev1.Pod, []error) {
	pods, errs := make([]*corev1.Pod, len(g.Spec.Roles)), make([]error, len(g.Spec.Roles))
	var wg sync.WaitGroup
	for i := range g.Spec.Roles {
		wg.Go(func() {
			if errs[i] = l.slots.Take(ctx, g.Namespace, 0); errs[i] != nil {
				return
			}
			defer l.slots.Give()
			pods[i] = l.gpus.Sample(g, &g.Spec.Roles[i])
			errs[i] = l.client.Create(ctx, pods[i], client.DryRunAll)
		})
	}
	wg.Wait()
	return pods, errs
}
