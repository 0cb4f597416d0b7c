package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
)

const (
	// AnnotationGIDs is, on the namespace of a Unix user, the numbers of the user's groups,
	// separated by commas. Policies go by it.
	AnnotationGIDs = "muster.dev/gids"
	// annotationMade is the digest of what was made of a tenant, once all of it was.
	annotationMade = "muster.dev/tenant"

	// fresh is the time for which a tenant that is there is not looked at again.
	fresh = time.Minute
	// again is the time for which an error is given again without a request.
	again = time.Second
	// maxGIDs bounds the groups of a user that policies know, whose pods may name them.
	maxGIDs = 1024
)

// GroupQueue gives the users of a Unix group a queue above their own.
type GroupQueue struct {
	// Group is the name of a Unix group.
	Group string
	// Queue is the parent of its users' queues. It is made if it is missing.
	Queue string
}

// Directory tells about users of the machine; *account.Directory is one.
type Directory interface {
	ByUID(ctx context.Context, uid uint32) (account.Account, bool, error)
	Groups(ctx context.Context, uid uint32) ([]account.Group, error)
}

// KeeperOptions set up a [Keeper].
type KeeperOptions struct {
	// Server has the rights of the administrator. Required.
	Server client.Client
	// Directory tells the groups of users. Required.
	Directory Directory
	// Queues are the queues of Unix groups. The first group that a user is in counts; the
	// queue of a user in none has no parent.
	Queues []GroupQueue
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Keeper makes the tenants of one machine as their users come. Its methods may be called
// concurrently.
type Keeper struct {
	o KeeperOptions

	mu    sync.Mutex
	users map[uint32]*kept
}

// kept is a user whom the keeper has seen.
type kept struct {
	// turn holds one value, taken while the tenant is looked at or made.
	turn chan struct{}

	mu sync.Mutex
	// digest is that of the tenant that was there, or made, at the time at; empty: none.
	digest string
	at     time.Time
	// err is the outcome of the last try, at the time failed.
	err    error
	failed time.Time
}

// NewKeeper returns a keeper.
func NewKeeper(o KeeperOptions) (*Keeper, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, q := range o.Queues {
		if err := q.Validate(); err != nil {
			return nil, err
		}
	}
	return &Keeper{o: o, users: map[uint32]*kept{}}, nil
}

// Validate returns an error unless both names are given and the queue can have its name.
func (q GroupQueue) Validate() error {
	if q.Group == "" {
		return fmt.Errorf("queue %q has no group: give the name of a Unix group, as in {group: vision, queue: vision}", q.Queue)
	}
	if wrong := validation.IsDNS1123Subdomain(q.Queue); len(wrong) > 0 || ownName(q.Queue) {
		return fmt.Errorf("queue %q of the Unix group %q: give lower-case letters, digits and -, and not u-<uid>, as in {group: vision, queue: vision}", q.Queue, q.Group)
	}
	return nil
}

// ownName reports whether a name is that of a user's namespace and queue.
func ownName(name string) bool {
	uid, own := strings.CutPrefix(name, "u-")
	_, err := strconv.ParseUint(uid, 10, 32)
	return own && err == nil
}

// Ensure makes the tenant of a Unix user, or brings it to what it is to be. In the usual
// case it asks the API server nothing; once a minute it reads the namespace. gids are the
// groups of the user's process as the kernel knows them. They count for a user who is
// new while the directory is away, and for nothing else.
func (k *Keeper) Ensure(ctx context.Context, uid uint32, gids []uint32) error {
	t, known, err := k.tenant(ctx, uid, gids)
	if err != nil {
		return err
	}
	user := k.user(uid)
	want := digest(t)
	if okay, err := user.answer(want, known, k.o.Now()); okay {
		return err
	}
	select {
	case user.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-user.turn }()
	// Another request may have done it meanwhile.
	if okay, err := user.answer(want, known, k.o.Now()); okay {
		return err
	}
	err = k.make(ctx, t, want, known)
	user.note(want, err, ctx.Err() != nil, k.o.Now())
	return err
}

func (k *Keeper) user(uid uint32) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	user := k.users[uid]
	if user == nil {
		user = &kept{turn: make(chan struct{}, 1)}
		k.users[uid] = user
	}
	return user
}

// answer returns what is known; false if the API server has to be asked.
func (u *kept) answer(want string, known bool, now time.Time) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil && now.Sub(u.failed) < again && !now.Before(u.failed) {
		return true, u.err
	}
	return u.digest != "" && (u.digest == want || !known) && now.Sub(u.at) < fresh && !now.Before(u.at), nil
}

// note keeps the outcome of a try. That of a request that was given up counts for no other.
func (u *kept) note(digest string, err error, gone bool, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch u.err = nil; {
	case err == nil:
		u.digest, u.at = digest, now
	case !gone:
		u.digest, u.err, u.failed = "", err, now
	}
}

// tenant returns what a user is to have; false if the directory does not tell the user's
// groups.
func (k *Keeper) tenant(ctx context.Context, uid uint32, gids []uint32) (Tenant, bool, error) {
	found, known, err := k.o.Directory.ByUID(ctx, uid)
	var groups []account.Group
	if err == nil && known {
		groups, err = k.o.Directory.Groups(ctx, uid)
	}
	if err != nil && !errors.Is(err, account.ErrAway) {
		return Tenant{}, false, fmt.Errorf("finding the groups of uid %d: %w", uid, err)
	}
	if known = known && err == nil; !known {
		t := OfMachine(uid, "")
		t.Profile.GIDs = sorted(gids)
		return t, false, nil
	}
	t := OfMachine(uid, k.parent(groups))
	gids = []uint32{found.GID}
	for _, g := range groups {
		gids = append(gids, g.GID)
	}
	t.Profile.GIDs = sorted(gids)
	return t, true, nil
}

func sorted(gids []uint32) []uint32 {
	gids = slices.Clone(gids)
	slices.Sort(gids)
	gids = slices.Compact(gids)
	return gids[:min(len(gids), maxGIDs)]
}

// parent returns the queue above that of a user in these groups.
func (k *Keeper) parent(groups []account.Group) string {
	for _, q := range k.o.Queues {
		if slices.ContainsFunc(groups, func(g account.Group) bool { return g.Name == q.Group }) {
			return q.Queue
		}
	}
	return ""
}

// digest tells two forms of a tenant apart.
func digest(t Tenant) string {
	text, err := json.Marshal([]any{t.namespace(), t.queue(), t.objects(), t.quota()})
	if err != nil {
		return "" // never the digest of what was made
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// make looks at a tenant, and makes it if it is not as it is to be.
//
//  1. Read the namespace: its annotation says what was made.
//  2. Make the queue above that of the user, and all objects of the user.
//  3. Put the user's queue below it.
//  4. Write the annotation.
func (k *Keeper) make(ctx context.Context, t Tenant, want string, known bool) error {
	there := &corev1.Namespace{}
	err := k.o.Server.Get(ctx, client.ObjectKey{Name: t.Name}, there)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading namespace %s: %w", t.Name, err)
	}
	made := there.Annotations[annotationMade]
	if err == nil && there.DeletionTimestamp == nil && there.Labels[LabelUser] == t.Name && made != "" && (made == want || !known) {
		return nil
	}
	if t.Profile.Parent != "" {
		parent := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: t.Profile.Parent, Labels: map[string]string{"app.kubernetes.io/part-of": "muster"}}}
		if err := k.o.Server.Create(ctx, parent); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating queue %s: %w", parent.Name, err)
		}
	}
	queueMade, err := Add(ctx, k.o.Server, t)
	if errors.Is(err, ErrTaken) {
		return fmt.Errorf("the namespace %s is there and is not that of a user: root has to remove it: %w", t.Name, err)
	}
	if err != nil {
		return err
	}
	if !queueMade {
		if err := k.move(ctx, t); err != nil {
			return err
		}
	}
	if err := k.o.Server.Get(ctx, client.ObjectKey{Name: t.Name}, there); err != nil {
		return fmt.Errorf("reading namespace %s: %w", t.Name, err)
	}
	after := there.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, annotationMade, want)
	return wrap(k.o.Server.Patch(ctx, after, client.MergeFrom(there)), "changing namespace %s", t.Name)
}

// move puts the queue of a user below that of the user's group, or out of it. What
// administrators set beside it stays.
func (k *Keeper) move(ctx context.Context, t Tenant) error {
	queue := &v1alpha1.Queue{}
	if err := k.o.Server.Get(ctx, client.ObjectKey{Name: t.Queue}, queue); err != nil {
		return fmt.Errorf("reading queue %s: %w", t.Queue, err)
	}
	if queue.Labels[LabelUser] != t.Name || queue.Spec.Parent == t.Profile.Parent {
		return nil
	}
	after := queue.DeepCopy()
	after.Spec.Parent = t.Profile.Parent
	return wrap(k.o.Server.Patch(ctx, after, client.MergeFrom(queue)), "changing queue %s", t.Queue)
}
