package fencing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const (
	// LeaseName is the Lease that is the fence.
	LeaseName = "muster-scheduler-epoch"
	// annotationSettled is, on that Lease, the last settled epoch.
	annotationSettled = "muster.dev/settled-epoch"
	// annotationClosed is, on that Lease, the last epoch whose scheduler has
	// handed over in order. Versions that do not know it leave it as it is, which
	// does no harm: it says what is true for ever.
	annotationClosed = "muster.dev/closed-epoch"
)

// ErrDeposed is returned once another scheduler has taken over: the one that
// receives it must write nothing more.
var ErrDeposed = errors.New("another scheduler has taken over")

// ErrDamaged is returned while an annotation of the Lease has a value that no scheduler writes. A
// person has to remove the annotation.
var ErrDamaged = errors.New("the scheduler's lease is damaged")

// Options are what a Fence needs.
type Options struct {
	// Client writes.
	Client client.Client
	// Live reads past any cache.
	Live client.Reader
	// Namespace is where the Lease is; created if absent. Default:
	// muster-system.
	Namespace string
	// Identity names this scheduler to people and to its successor. Default:
	// "muster".
	Identity string
	// Alone says that no other scheduler can be alive, because this one holds
	// the lock of the machine: nothing is waited for. It is a matter of speed
	// alone.
	Alone bool
	// Duration is for how long this scheduler is left undisturbed after its
	// last renewal. Default: 15 s; at least a second.
	Duration time.Duration
	// LongestRequest bounds each write of a scheduler. Default: 10 s.
	LongestRequest time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Fence is one scheduler's hold on the fence. It is used by one goroutine,
// Check excepted.
type Fence struct {
	options Options
	epoch   int64
	// tried is the last epoch that Take wrote. The write may have arrived though Take failed.
	tried int64
	// checks are the reads of Check.
	checks *Sharing
}

// New returns a Fence that is not taken yet.
func New(o Options) *Fence {
	if o.Namespace == "" {
		o.Namespace = v1alpha1.SystemNamespace
	}
	if o.Identity == "" {
		o.Identity = "muster"
	}
	if o.Duration <= 0 {
		o.Duration = 15 * time.Second
	}
	o.Duration = max(o.Duration, time.Second)
	if o.LongestRequest <= 0 {
		o.LongestRequest = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Fence{options: o, checks: NewSharing(o.Live, o.Namespace)}
}

// Epoch is the epoch of this scheduler; 0 before the first Take.
func (f *Fence) Epoch() int64 { return f.epoch }

// RenewEvery is how often [Fence.Renew] is to be called.
func (f *Fence) RenewEvery() time.Duration { return f.options.Duration / 3 }

// LongestRequest bounds each write of this scheduler.
func (f *Fence) LongestRequest() time.Duration { return f.options.LongestRequest }

// Read returns what the fence in a namespace says now, past any cache; the
// zero State if there is none.
func Read(ctx context.Context, live client.Reader, namespace string) (State, error) {
	lease := &coordinationv1.Lease{}
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: LeaseName}, lease)
	if apierrors.IsNotFound(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the scheduler's epoch in lease %s/%s: %w", namespace, LeaseName, err)
	}
	return stateOf(lease)
}

func stateOf(lease *coordinationv1.Lease) (State, error) {
	var s State
	if n := lease.Spec.LeaseTransitions; n != nil {
		s.Epoch = int64(*n)
	}
	text := lease.Annotations[annotationSettled]
	if text == "" {
		return s, nil // nothing is known to be settled: everything will be adopted
	}
	settled, err := strconv.ParseInt(text, 10, 64)
	if err != nil || settled < 0 || settled > s.Epoch {
		return State{}, fmt.Errorf("%w: lease %s/%s: annotation %s is %q; it must be a number from 0 to the lease's transitions, %d: remove the annotation, and restart the scheduler",
			ErrDamaged, lease.Namespace, lease.Name, annotationSettled, text, s.Epoch)
	}
	s.Settled = settled
	// Without it, or with one that cannot be, there is no chain: whoever takes
	// over next adopts everything.
	closed, err := strconv.ParseInt(lease.Annotations[annotationClosed], 10, 64)
	if err == nil && closed >= s.Settled && closed <= s.Epoch {
		s.Closed = closed
	}
	return s, nil
}

// Take waits for the present holder to be gone, and moves the epoch on, by
// comparison and swap: no two schedulers get the same. Seen is the highest
// epoch that anything is known to carry.
func (f *Fence) Take(ctx context.Context, seen int64) (State, error) {
	if err := f.waitOut(ctx); err != nil {
		return State{}, err
	}
	for {
		s, err := f.tryTake(ctx, seen)
		if err == nil {
			f.epoch = s.Epoch
			return s, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return State{}, fmt.Errorf("moving the scheduler's epoch on, in lease %s/%s: %w", f.options.Namespace, LeaseName, err)
		}
		if ctx.Err() != nil {
			return State{}, ctx.Err()
		}
	}
}

func (f *Fence) tryTake(ctx context.Context, seen int64) (State, error) {
	lease := &coordinationv1.Lease{}
	err := f.options.Live.Get(ctx, f.key(), lease)
	if apierrors.IsNotFound(err) {
		next := State{}.Next(seen)
		f.tried = next.Epoch
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: LeaseName}}
		f.hold(lease, next)
		return next, f.create(ctx, lease)
	}
	if err != nil {
		return State{}, err
	}
	s, err := stateOf(lease)
	if err != nil {
		return State{}, err
	}
	next := s.Next(seen)
	f.tried = next.Epoch
	f.hold(lease, next)
	return next, f.options.Client.Update(ctx, lease)
}

// create makes the Lease, and its namespace only if that is missing: where
// Muster was installed it is there, and a scheduler may not make any.
func (f *Fence) create(ctx context.Context, lease *coordinationv1.Lease) error {
	err := f.options.Client.Create(ctx, lease.DeepCopy())
	if !apierrors.IsNotFound(err) {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.options.Namespace}}
	if err := f.options.Client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", f.options.Namespace, err)
	}
	return f.options.Client.Create(ctx, lease)
}

// hold enters this scheduler into the Lease.
func (f *Fence) hold(lease *coordinationv1.Lease, s State) {
	transitions, seconds := int32(s.Epoch), int32((f.options.Duration+time.Second-1)/time.Second)
	now := metav1.MicroTime{Time: f.options.Now()}
	lease.Spec.LeaseTransitions, lease.Spec.LeaseDurationSeconds = &transitions, &seconds
	lease.Spec.HolderIdentity = &f.options.Identity
	if f.epoch != s.Epoch {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.RenewTime = &now
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotationSettled] = Text(s.Settled)
	delete(lease.Annotations, annotationClosed)
	if s.Closed != 0 {
		lease.Annotations[annotationClosed] = Text(s.Closed)
	}
}

// Settle says that everything is adopted. From then on the scheduler plans.
func (f *Fence) Settle(ctx context.Context) error {
	return f.update(ctx, func(lease *coordinationv1.Lease, s State) bool {
		next, ok := s.Settle(f.epoch)
		f.hold(lease, next)
		return ok
	})
}

// Renew shows that this scheduler is alive. It returns [ErrDeposed] once it
// has been replaced.
func (f *Fence) Renew(ctx context.Context) error {
	return f.update(ctx, func(lease *coordinationv1.Lease, s State) bool {
		f.hold(lease, s)
		return !s.Deposes(f.epoch)
	})
}

// Release lets a successor begin at once. All writes must have returned.
func (f *Fence) Release(ctx context.Context) error {
	return f.update(ctx, func(lease *coordinationv1.Lease, s State) bool {
		f.letGo(lease)
		return !s.Deposes(f.epoch)
	})
}

// HandOver is Release, and says that this scheduler hands over in order: it has
// led, it writes nothing more, and every write that it ever began was answered
// for certain. Its successor has nothing to adopt.
func (f *Fence) HandOver(ctx context.Context) error {
	return f.update(ctx, func(lease *coordinationv1.Lease, s State) bool {
		closed, leads := s.Close(f.epoch)
		if leads {
			lease.Annotations[annotationClosed] = Text(closed.Closed)
		}
		f.letGo(lease)
		return !s.Deposes(f.epoch)
	})
}

// letGo takes this scheduler's name from the Lease.
func (f *Fence) letGo(lease *coordinationv1.Lease) {
	nobody := ""
	lease.Spec.HolderIdentity = &nobody
}

// update changes the Lease by comparison and swap, as long as change allows.
func (f *Fence) update(ctx context.Context, change func(*coordinationv1.Lease, State) bool) error {
	for {
		lease := &coordinationv1.Lease{}
		if err := f.options.Live.Get(ctx, f.key(), lease); apierrors.IsNotFound(err) {
			return f.deposed("somebody deleted it")
		} else if err != nil {
			return fmt.Errorf("reading lease %s: %w", f.key(), err)
		}
		s, err := stateOf(lease)
		if err != nil {
			return err
		}
		if !change(lease, s) {
			return f.deposed(fmt.Sprintf("it is at epoch %d, held by %q", s.Epoch, holder(lease)))
		}
		err = f.options.Client.Update(ctx, lease)
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing lease %s: %w", f.key(), err)
		}
	}
}

// Check returns nil if this scheduler may write what it planned from what it
// has seen before, and [ErrDeposed] if another has taken over.
func (f *Fence) Check(ctx context.Context) error {
	s, err := f.checks.Read(ctx)
	if err != nil {
		return err
	}
	if !s.Leads(f.epoch) {
		return f.deposed(fmt.Sprintf("it is at epoch %d", s.Epoch))
	}
	return nil
}

func (f *Fence) deposed(how string) error {
	return fmt.Errorf("%w: the scheduler %q has epoch %d of lease %s, and %s; it stands down, restart it to take over again",
		ErrDeposed, f.options.Identity, f.epoch, f.key(), how)
}

func (f *Fence) key() client.ObjectKey {
	return client.ObjectKey{Namespace: f.options.Namespace, Name: LeaseName}
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
