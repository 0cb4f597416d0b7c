package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/denial"
	"github.com/muster-dev/muster/internal/memberstatus"
	"github.com/muster-dev/muster/internal/rendezvous"
	"github.com/muster-dev/muster/internal/startup"
)

// creation is what came of making pods.
type creation struct {
	// invalid are the API server's words on a pod that it will never take.
	invalid string
	// forbidden are its words on one that it does not take now: a quota, a policy.
	forbidden string
	// taken names a pod that is not the gang's and has a member's name.
	taken string
	// refused are the extensions whose pods the API server does not take, and
	// why are its words on the last of them.
	refused []*v1alpha1.Placement
	why     string
	// transient are errors after which the same is tried again.
	transient []error
}

// create makes the pods of members side by side.
func (c *Controller) create(ctx context.Context, o observed, s *v1alpha1.GangStatus, members []place) creation {
	var out creation
	if len(members) == 0 {
		return out
	}
	if err := c.chooseNodes(ctx, o.gang, members); err != nil {
		out.transient = append(out.transient, err)
	}
	peers, err := rendezvous.NewTable(table(o.gang, o.peers(s), func(name string) *corev1.Node { return c.node(ctx, name) }))
	if err != nil {
		out.invalid = err.Error()
		return out
	}
	if err := c.publish(ctx, o, peers); err != nil {
		out.add("", err)
		return out
	}
	var mu sync.Mutex
	each(c.options.InFlight, len(members), func(i int) {
		pod, err := c.podOf(ctx, o.gang, &members[i], peers)
		if err != nil {
			mu.Lock()
			out.invalid = err.Error()
			mu.Unlock()
			return
		}
		err = c.createPod(ctx, o.gang.UID, pod)
		if err == nil {
			c.bear(client.ObjectKeyFromObject(o.gang), pod.Name, members[i].placement.UID)
		}
		mu.Lock()
		defer mu.Unlock()
		if members[i].placement != o.placement && out.extra(members[i].placement, err) {
			return
		}
		out.add(pod.Name, err)
	})
	return out
}

// errTaken is a name that another pod has.
var errTaken = errors.New("the name is taken")

func (out *creation) add(name string, err error) {
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	case errors.Is(err, errTaken):
		out.taken = name
		out.transient = append(out.transient, err)
	case denial.Never(err):
		out.invalid = words(err)
	case denial.NotNow(err):
		out.forbidden = words(err)
	default:
		out.transient = append(out.transient, err)
	}
}

// extra notes an extension whose pod cannot be made, without which the gang
// goes on. It returns false for what is tried again.
func (out *creation) extra(p *v1alpha1.Placement, err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	if !denial.Never(err) && !denial.NotNow(err) && !errors.Is(err, errTaken) {
		return false
	}
	out.refused, out.why = append(out.refused, p), words(err)
	return true
}

// words are what the API server said, without what this program added.
func words(err error) string {
	if said := apierrors.APIStatus(nil); errors.As(err, &said) {
		return said.Status().Message
	}
	return err.Error()
}

// createPod makes one pod. One that exists already is as good, if it is of the
// same attempt.
func (c *Controller) createPod(ctx context.Context, gang types.UID, pod *corev1.Pod) error {
	want := pod.DeepCopy()
	err := c.options.Client.Create(ctx, pod)
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating pod %s/%s: %w", want.Namespace, want.Name, err)
	}
	have := &corev1.Pod{}
	if err := c.options.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return fmt.Errorf("reading pod %s/%s, which exists already: %w", want.Namespace, want.Name, err)
	}
	if owner := metav1.GetControllerOfNoCopy(have); owner != nil && owner.UID == gang {
		return nil // the cache will show it
	}
	return fmt.Errorf("creating pod %s/%s: %w", want.Namespace, want.Name, errTaken)
}

// refineStatus enters what came of making pods into the status, and adds up
// the run time if the attempt ends with what was decided or with that.
func refineStatus(o observed, s *v1alpha1.GangStatus, made creation) {
	switch {
	case s.Outcome != "":
	case made.invalid != "":
		o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonAPIRefused, "it cannot be started as it is written: "+made.invalid)
	case made.forbidden != "":
		o.forbid(s, made.forbidden)
	case made.taken != "":
		s.Reason = v1alpha1.ReasonNameTaken
		s.Message = fmt.Sprintf("a pod named %s exists that is not this job's; delete it, or give the job another name", made.taken)
	}
	if len(made.refused) > 0 && holdsNow(s) {
		m := made.refused[0].Spec.Members[0]
		o.growLater(s, "a further member, "+memberName(m.Role, m.Index)+", cannot be started: "+made.why)
	}
	o.tally(s)
}

// remove deletes pods side by side, each only as the one that was seen; by
// force, without waiting for its node, and with the notice that was decided.
func (c *Controller) remove(ctx context.Context, d decision) error {
	pods := d.remove
	errs := make([]error, len(pods))
	each(c.options.InFlight, len(pods), func(i int) {
		p := pods[i]
		options := []client.DeleteOption{client.Preconditions{UID: &p.UID}}
		if d.force {
			options = append(options, client.GracePeriodSeconds(0))
		} else if d.notice != nil {
			if seconds := d.notice(p); seconds != nil {
				options = append(options, client.GracePeriodSeconds(*seconds))
			}
		}
		err := c.options.Client.Delete(ctx, p.DeepCopy(), options...)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs[i] = fmt.Errorf("deleting pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	})
	return errors.Join(errs...)
}

// each calls do for 0 to n-1, at most width at once, and waits for all.
func each(width, n int, do func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// release gives back every placement of one gang's life, provided that past
// the cache no pod of it is left but those to keep. It returns false if one
// is.
func (c *Controller) release(ctx context.Context, namespace, name string, uid types.UID, keep func(*corev1.Pod) bool) (bool, error) {
	held, empty, err := c.lookAll(ctx, namespace, name, uid, keep)
	if err != nil || !empty {
		return false, err
	}
	return true, c.free(ctx, held)
}

// markPlacement says that nothing of a placement may start any more. It stays
// until it is freed.
func (c *Controller) markPlacement(ctx context.Context, p *v1alpha1.Placement) error {
	err := c.options.Client.Delete(ctx, p.DeepCopy(), client.Preconditions{UID: &p.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// freePlacement lets a marked placement go, with all that it held. The UID is
// a precondition: another of the same name stays.
func (c *Controller) freePlacement(ctx context.Context, p *v1alpha1.Placement) error {
	if !controllerutil.ContainsFinalizer(p, v1alpha1.GangFinalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == v1alpha1.GangFinalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "finalizers": rest}})
	if err != nil {
		return fmt.Errorf("releasing placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	target := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	err = c.options.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("releasing placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// releaseStrangers gives back placements under the name of a gang that are of
// an earlier gang, once none of its pods runs.
func (c *Controller) releaseStrangers(ctx context.Context, key types.NamespacedName, g *v1alpha1.Gang) error {
	placements, err := placementsOf(ctx, c.options.Client, cached(key.Name), key.Namespace, key.Name)
	if err != nil {
		return err
	}
	for i := range placements {
		uid := placements[i].Spec.GangUID
		if g != nil && uid == g.UID {
			continue
		}
		if g == nil {
			// The cache of gangs may be the one that is behind.
			have := &v1alpha1.Gang{}
			err := c.options.Live.Get(ctx, key, have)
			if err == nil && have.UID == uid {
				continue
			}
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading gang %s: %w", key, err)
			}
		}
		if _, err := c.release(ctx, key.Namespace, key.Name, uid, memberstatus.Ended); err != nil {
			return err
		}
	}
	return nil
}

// tombstones are the pods of a gang that were deleted and are not counted yet.
func (c *Controller) tombstones(key types.NamespacedName, uid types.UID) []*corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range c.gone[key] {
		if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.UID == uid {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// buried remembers a deleted pod until its usage is counted.
func (c *Controller) buried(p *corev1.Pod) {
	if !memberstatus.Ended(p) && !startup.Disrupted(p) {
		return
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: gangOf(p)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[key] == nil {
		c.gone[key] = map[types.UID]*corev1.Pod{}
	}
	c.gone[key][p.UID] = p
}

// counted forgets the deleted pods and the changed quota that a status now
// heeds.
func (c *Controller) counted(o observed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(o.gang)
	for _, p := range o.gone {
		delete(c.gone[key], p.UID)
	}
	if len(c.gone[key]) == 0 {
		delete(c.gone, key)
	}
	if o.allowed {
		delete(c.allowed, key)
	}
}

// forget drops what was kept for a gang that is no more.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gone, key)
	delete(c.written, key)
	delete(c.valid, key)
	delete(c.allowed, key)
	delete(c.born, key)
	delete(c.unsaid, key)
	c.retries.Forget(key)
}
