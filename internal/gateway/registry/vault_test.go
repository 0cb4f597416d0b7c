package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/gateway"
)

// safe is a vault whose clock stands until it is moved; it counts how often all keys
// are looked at.
type safe struct {
	testing.TB
	*Vault
	passed, lists atomic.Int64
}

func newSafe(t *testing.T) *safe {
	t.Helper()
	s, began := &safe{TB: t}, time.Now()
	now := func() time.Time { return began.Add(time.Duration(s.passed.Load())) }
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			s.lists.Add(1)
			return c.List(ctx, l, o...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			secret, is := o.(*corev1.Secret)
			if is { // as an API server does
				secret.Data = map[string][]byte{}
				for name, text := range secret.StringData {
					secret.Data[name] = []byte(text)
				}
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	s.Vault = &Vault{Client: api, Namespace: "muster-system", Now: now}
	return s
}

func (s *safe) make(namespace, user string, life time.Duration) Key {
	s.Helper()
	k := Key{Namespace: namespace, User: user, Groups: []string{"a", "b"}}
	if life > 0 {
		k.Ends = s.now().Add(life)
	}
	k, err := s.Make(s.Context(), k)
	if err != nil {
		s.Fatal(err)
	}
	return k
}

func TestKeysOfACluster(t *testing.T) {
	s, ctx := newSafe(t), t.Context()
	ada, brief := s.make("team", "ada", 0), s.make("team", "ada", time.Hour)
	eve := s.make("other", "eve", 0)
	known := &Registry{Vault: s.Vault}
	grant, err := known.Grant(ctx, ada.ID)
	if err != nil || grant.Secret != ada.Secret || grant.Namespace != "team" || grant.User != "ada" || len(grant.Groups) != 2 {
		t.Errorf("%+v, %v", grant, err)
	}
	all, err := s.List(ctx, "team")
	if err != nil || len(all) != 2 || all[0].Secret != "" || all[0].Namespace != "team" {
		t.Errorf("%+v, %v", all, err)
	}
	for name, c := range map[string]struct {
		id, namespace, user string
		want                error
	}{
		"another namespace's": {eve.ID, "team", "eve", fs.ErrNotExist},
		"another user's":      {eve.ID, "other", "ada", ErrNotYours},
		"none":                {"MUNONE", "team", "ada", fs.ErrNotExist},
		"no name":             {"../x", "team", "ada", fs.ErrNotExist},
		"one's own":           {ada.ID, "team", "ada", nil},
	} {
		if err := s.Delete(ctx, c.namespace, c.id, c.user); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	s.passed.Store(int64(time.Hour + time.Minute))
	for name, id := range map[string]string{"deleted": ada.ID, "ended": brief.ID} {
		if _, err := known.Grant(ctx, id); !errors.Is(err, gateway.ErrNoKey) {
			t.Errorf("one that was %s: %v", name, err)
		}
	}
	if all, err := s.List(ctx, "team"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(s.secret(brief.ID)), &corev1.Secret{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Secret of a key that has ended: %v", err)
	}
}

func TestTooManyKeys(t *testing.T) {
	s := newSafe(t)
	for range MostKeys {
		s.make("team", "ada", 0)
	}
	if _, err := s.Make(t.Context(), Key{Namespace: "team", User: "ada"}); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	s.make("team", "bob", 0)
	s.make("other", "ada", 0)
}

// TestCrowd is of strange keys while keys are looked at: few of them wait, the others
// are told to come again at once, and whose key was known is not among those.
func TestCrowd(t *testing.T) {
	s := newSafe(t)
	known := &Registry{Vault: s.Vault}
	k := s.make("team", "ada", 0)
	if _, err := known.Grant(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	s.passed.Store(int64(2 * keyCounts)) // which has to be looked at again
	const crowd = 5 * mostStrangers
	strange, good := make(chan error, crowd), make(chan error, crowd)
	s.looking.Lock()
	for i := range crowd {
		go func() {
			_, err := known.Grant(t.Context(), fmt.Sprintf("MUSTRANGE%d", i))
			strange <- err
		}()
		go func() {
			_, err := known.Grant(t.Context(), k.ID)
			good <- err
		}()
	}
	late := time.After(20 * time.Second)
	for i := range crowd - mostStrangers {
		select {
		case err := <-strange:
			if !errors.Is(err, gateway.ErrBusy) {
				t.Errorf("a strange key: %v", err)
			}
		case <-late:
			t.Errorf("only %d were told to come again", i)
			s.looking.Unlock()
			return
		}
	}
	s.passed.Add(int64(2 * lookAgain)) // one look is enough for all
	s.looking.Unlock()
	for range mostStrangers {
		if err := <-strange; !errors.Is(err, gateway.ErrNoKey) {
			t.Errorf("one that waited: %v", err)
		}
	}
	for range crowd {
		if err := <-good; err != nil {
			t.Errorf("a key that was known: %v", err)
		}
	}
	if s.strangers != 0 {
		t.Errorf("%d still wait", s.strangers)
	}
}

// TestStrangeKeys come together and cost one look; who has a key that was made
// meanwhile is let in.
func TestStrangeKeys(t *testing.T) {
	s := newSafe(t)
	known := &Registry{Vault: s.Vault}
	first := s.make("team", "ada", 0)
	if _, err := known.Grant(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	second, before := s.make("team", "ada", 0), s.lists.Load()
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range mostStrangers - 1 { // one more has room
		all.Go(func() {
			if _, err := known.Grant(ctx, fmt.Sprintf("MUSTRANGE%d", i)); err == nil {
				t.Error("a key that nobody made is good")
			}
		})
	}
	if _, err := known.Grant(t.Context(), second.ID); err != nil {
		t.Error(err)
	}
	cancel()
	all.Wait()
	// The clock stands: each of them waits a second for the next look.
	if looks := s.lists.Load() - before; looks > 3 {
		t.Errorf("%d looks at all keys", looks)
	}
	if _, err := known.Grant(t.Context(), first.ID); err != nil {
		t.Error(err)
	}
}
