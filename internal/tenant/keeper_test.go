package tenant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
)

// directory has one user, of some groups.
type directory struct {
	gid    uint32
	groups []account.Group
	err    error
}

func (d *directory) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	return account.Account{UID: uid, GID: d.gid}, d.err == nil, d.err
}

func (d *directory) Groups(context.Context, uint32) ([]account.Group, error) { return d.groups, d.err }

// trial is a keeper before a store of objects that counts requests.
type trial struct {
	*testing.T
	keeper   *Keeper
	store    client.Client
	users    *directory
	now      time.Time
	requests int
	// fails is the answer to creations of quotas, the last objects of a tenant.
	fails error
}

func begin(t *testing.T, queues ...GroupQueue) *trial {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &trial{T: t, users: &directory{gid: 1000, groups: []account.Group{{GID: 1000, Name: "ada"}, {GID: 2000, Name: "lab"}}}, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.store = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.ResourceQuota{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			s.requests++
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			s.requests++
			if _, quota := o.(*corev1.ResourceQuota); quota && s.fails != nil {
				return s.fails
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	var err error
	s.keeper, err = NewKeeper(KeeperOptions{Server: s.store, Directory: s.users, Queues: queues, Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ensure returns the number of requests that it took.
func (s *trial) ensure() (int, error) {
	s.requests = 0
	err := s.keeper.Ensure(s.Context(), 1000, []uint32{1000, 27})
	return s.requests, err
}

func (s *trial) must() int {
	s.Helper()
	n, err := s.ensure()
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// state returns the groups in the namespace and the parent of the queue.
func (s *trial) state() (gids, parent string) {
	s.Helper()
	home, queue := &corev1.Namespace{}, &v1alpha1.Queue{}
	if err := errors.Join(s.store.Get(s.Context(), client.ObjectKey{Name: "u-1000"}, home), s.store.Get(s.Context(), client.ObjectKey{Name: "u-1000"}, queue)); err != nil {
		s.Fatal(err)
	}
	return home.Annotations[AnnotationGIDs], queue.Spec.Parent
}

func TestEnsure(t *testing.T) {
	s := begin(t, GroupQueue{Group: "vision", Queue: "vision"}, GroupQueue{Group: "lab", Queue: "lab"})
	if n := s.must(); n < 5 {
		t.Errorf("a new tenant took %d requests", n)
	}
	if gids, parent := s.state(); gids != "1000,2000" || parent != "lab" {
		t.Errorf("groups %s, queue below %q", gids, parent)
	}
	if err := s.store.Get(t.Context(), client.ObjectKey{Name: "lab"}, &v1alpha1.Queue{}); err != nil {
		t.Errorf("the queue of the group: %v", err)
	}
	if n := s.must(); n != 0 {
		t.Errorf("a tenant that is there took %d requests", n)
	}
	s.now = s.now.Add(2 * fresh)
	if n := s.must(); n != 1 {
		t.Errorf("a look took %d requests, want 1", n)
	}
	// What an administrator changes stays.
	queue, weight := &v1alpha1.Queue{}, int32(7)
	if err := s.store.Get(t.Context(), client.ObjectKey{Name: "u-1000"}, queue); err != nil {
		t.Fatal(err)
	}
	queue.Spec.Weight = &weight
	if err := s.store.Update(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	// A new group counts at once, and the first in the configuration wins.
	s.users.groups = append(s.users.groups, account.Group{GID: 3000, Name: "vision"})
	s.must()
	if gids, parent := s.state(); gids != "1000,2000,3000" || parent != "vision" {
		t.Errorf("groups %s, queue below %q", gids, parent)
	}
	if err := s.store.Get(t.Context(), client.ObjectKey{Name: "u-1000"}, queue); err != nil || queue.Spec.Weight == nil || *queue.Spec.Weight != weight {
		t.Errorf("the weight of an administrator: %v, %v", queue.Spec.Weight, err)
	}
	// While the directory is away, all stays.
	s.users.err = account.ErrAway
	s.now = s.now.Add(2 * fresh)
	s.must()
	if gids, parent := s.state(); gids != "1000,2000,3000" || parent != "vision" {
		t.Errorf("without a directory: groups %s, queue below %q", gids, parent)
	}
	// A user in no group of the configuration.
	s.users.err, s.users.groups = nil, nil
	s.must()
	if gids, parent := s.state(); gids != "1000" || parent != "" {
		t.Errorf("groups %s, queue below %q", gids, parent)
	}
	// A namespace that root removed comes back.
	if err := s.store.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "u-1000"}}); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(2 * fresh)
	s.must()
	s.state()
}

// A new user while the directory is away has the groups that the kernel tells.
func TestEnsureWithoutDirectory(t *testing.T) {
	s := begin(t, GroupQueue{Group: "lab", Queue: "lab"})
	s.users.err = account.ErrAway
	s.must()
	if gids, parent := s.state(); gids != "27,1000" || parent != "" {
		t.Errorf("groups %s, queue below %q", gids, parent)
	}
	s.users.err = nil
	s.must()
	if gids, parent := s.state(); gids != "1000,2000" || parent != "lab" {
		t.Errorf("groups %s, queue below %q", gids, parent)
	}
	s.users.err = context.Canceled
	if _, err := s.ensure(); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
}

func TestEnsureFails(t *testing.T) {
	s := begin(t)
	s.fails = errors.New("no room")
	if _, err := s.ensure(); !errors.Is(err, s.fails) {
		t.Fatalf("error %v", err)
	}
	if n, err := s.ensure(); n != 0 || !errors.Is(err, s.fails) {
		t.Errorf("at once again: %d requests, %v", n, err)
	}
	s.fails, s.now = nil, s.now.Add(2*again)
	if n := s.must(); n == 0 {
		t.Error("half a tenant counts as made")
	}
	taken := begin(t)
	if err := taken.store.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "u-1000"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := taken.ensure(); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "root has to remove it") {
		t.Errorf("a namespace of nobody: %v", err)
	}
}

func TestKeeperOptions(t *testing.T) {
	for _, q := range []GroupQueue{{Queue: "lab"}, {Group: "lab"}, {Group: "lab", Queue: "Lab"}, {Group: "lab", Queue: "u-1000"}} {
		if _, err := NewKeeper(KeeperOptions{Queues: []GroupQueue{q}}); err == nil {
			t.Errorf("%+v is allowed", q)
		}
	}
	many := make([]uint32, 3*maxGIDs)
	for i := range many {
		many[i] = uint32(len(many) - i)
	}
	if got := sorted(many); len(got) != maxGIDs || !slices.IsSorted(got) {
		t.Errorf("%d groups, sorted: %v", len(got), slices.IsSorted(got))
	}
}
