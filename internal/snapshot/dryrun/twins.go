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

// twinsFor is for how long the API server's yes to the pods of one gang answers
// for those of another that are the same but for the gang's name: thousands of
// equal jobs are submitted together.
const twinsFor = 2 * time.Second

// twins is a question that several gangs ask. Its pods are set, or nil if the
// answer was no, once done is closed.
type twins struct {
	namespace string
	asked     time.Time
	done      chan struct{}
	pods      []*corev1.Pod
}

// question is what the answer depends on.
type question [sha256.Size]byte

// dryRun asks the API server what it would make of a gang's pods, or takes what
// it has just said of pods that are alike. A no is each gang's own.
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

// join returns the question as it was last asked, and whether the caller is to
// ask it anew.
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

// drop has a question that was not answered with yes asked again.
func (l *Answers) drop(q question, a *twins) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.twins[q] == a {
		delete(l.twins, q)
	}
}

// question is what the API server is asked about a gang, without the gang's
// name where Muster itself writes it into pods. It is false for what cannot be
// told.
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

// nameless stands for a gang's name; no name can be this.
const nameless = "*"

// anonymous replaces the gang's name in a pod that Muster makes.
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
