package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	passed, looks atomic.Int64
	// fail decides, after a write was done, whether the answer is an error.
	fail atomic.Pointer[func() error]
	// hold, if set, delays each read of all keys until the channel is closed.
	hold atomic.Pointer[chan struct{}]
}

func newSafe(t *testing.T) *safe {
	t.Helper()
	s, began := &safe{TB: t}, time.Now()
	now := func() time.Time { return began.Add(time.Duration(s.passed.Load())) }
	answer := func(err error) error {
		if fail := s.fail.Load(); err == nil && fail != nil {
			return (*fail)()
		}
		return err
	}
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == ShardName(0) {
				s.looks.Add(1)
				if hold := s.hold.Load(); hold != nil {
					<-*hold
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return answer(c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return answer(c.Update(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return answer(c.Delete(ctx, o, opts...))
		},
	}).Build()
	s.Vault = &Vault{Client: api, Namespace: "muster-system", Now: now}
	for _, name := range []string{"team", "other"} {
		s.addNamespace(name, "1")
	}
	return s
}

// strangersAre waits until n requests with unknown keys wait for a read.
func (s *safe) strangersAre(n int) {
	s.Helper()
	for limit := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		s.mu.Lock()
		now := s.strangers
		s.mu.Unlock()
		if now == n {
			return
		}
		if time.Now().After(limit) {
			s.Fatalf("%d wait for a look, want %d", now, n)
		}
	}
}

// replica is another manager's vault of the same keys.
func (s *safe) replica() *Vault {
	return &Vault{Client: s.Client, Namespace: s.Namespace, Now: s.Now}
}

// addNamespace makes a namespace.
func (s *safe) addNamespace(name, uid string) {
	s.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + uid)}}
	if err := s.Client.Create(s.Context(), n); err != nil {
		s.Fatal(err)
	}
}

// dropNamespace removes a namespace.
func (s *safe) dropNamespace(name string) {
	s.Helper()
	if err := s.Client.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		s.Fatal(err)
	}
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

// write changes the data of shard i by hand.
func (s *safe) write(i int, do func(data map[string][]byte)) {
	s.Helper()
	err := s.change(s.Context(), i, func(data map[string][]byte) error {
		do(data)
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// data are the data of all shards.
func (s *safe) data() map[string][]byte {
	s.Helper()
	all := map[string][]byte{}
	for i := range Shards {
		shard, err := s.read(s.Context(), i)
		if err != nil {
			s.Fatal(err)
		}
		maps.Copy(all, shard.Data)
	}
	return all
}

// grants fails the test unless the registry accepts the key exactly if want is true.
func (s *safe) grants(id string, want bool) {
	s.Helper()
	_, err := (&Registry{Vault: s.replica()}).Grant(s.Context(), id)
	if want && err != nil || !want && !errors.Is(err, gateway.ErrNoKey) {
		s.Errorf("key %s: %v, want that it is good: %v", id, err, want)
	}
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
	if err != nil || len(all) != 2 || all[0].Secret != "" || all[0].Namespace != "team" || all[0].Made.IsZero() {
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
		"empty":               {"", "team", "ada", fs.ErrNotExist},
		"a control character": {"MU\x00", "team", "ada", fs.ErrNotExist},
		"too long":            {strings.Repeat("A", 1<<20), "team", "ada", fs.ErrNotExist},
	} {
		if err := s.Delete(ctx, c.namespace, c.id, c.user); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := s.Delete(ctx, "team", ada.ID, "ada"); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, "team", ada.ID, "ada"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("once more: %v", err)
	}
	if _, err := known.Grant(ctx, ada.ID); err != nil {
		t.Errorf("a key that was deleted a moment ago: %v", err)
	}
	s.passed.Store(int64(keyCounts))
	if _, err := known.Grant(ctx, ada.ID); !errors.Is(err, gateway.ErrNoKey) {
		t.Errorf("a key that was deleted 5 s ago: %v", err)
	}
	s.passed.Store(int64(time.Hour + time.Minute))
	if _, err := known.Grant(ctx, brief.ID); !errors.Is(err, gateway.ErrNoKey) {
		t.Errorf("a key that ended: %v", err)
	}
	if all, err := s.List(ctx, "team"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Sweep(ctx); err != nil || len(s.data()) != 1 {
		t.Errorf("%d entries are left, and want that of eve, %v", len(s.data()), err)
	}
}

// TestKeysEndWithTheirNamespace removes a namespace and makes it again.
func TestKeysEndWithTheirNamespace(t *testing.T) {
	s, ctx := newSafe(t), t.Context()
	old, stays := s.make("team", "ada", 0), s.make("other", "eve", 0)
	s.dropNamespace("team")
	s.grants(old.ID, false)
	if _, err := s.Make(ctx, Key{Namespace: "team", User: "ada"}); !apierrors.IsNotFound(err) {
		t.Errorf("a key for a namespace that is gone: %v", err)
	}
	s.addNamespace("team", "2")
	s.grants(old.ID, false)
	if all, err := s.List(ctx, "team"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	fresh := s.make("team", "ada", 0)
	if err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	s.grants(fresh.ID, true)
	s.grants(stays.ID, true)
	if data := s.data(); len(data) != 2 || data[old.ID] != nil {
		t.Errorf("%d entries are left, and want two", len(data))
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
	s.fill("team", mostOfNamespace-MostKeys-1, "")
	_, err := s.Make(t.Context(), Key{Namespace: "team", User: "eve"})
	if !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "namespace team has 500") || !strings.Contains(err.Error(), "muster data key delete") {
		t.Error(err)
	}
	s.make("other", "eve", 0)
	s.fill("other", mostSizeOfNamespace/(8<<10), strings.Repeat("g", 8<<10))
	if _, err := s.Make(t.Context(), Key{Namespace: "other", User: "mallory"}); !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "bytes") {
		t.Error(err)
	}
	for name, groups := range map[string][]string{"long": {strings.Repeat("g", mostOfEntry)}, "two lines": {"a\nb"}, "empty": {""}} {
		if _, err := s.Make(t.Context(), Key{Namespace: "team", User: "ada", Groups: groups}); err == nil {
			t.Errorf("a group that is %s is in a key", name)
		}
	}
}

// fill stores n keys of a namespace, each of another user in a group.
func (s *safe) fill(namespace string, n int, group string) {
	s.Helper()
	var all [Shards]map[string]entry
	for j := range n {
		k := fresh(Key{})
		i := shardOf(k.ID)
		if all[i] == nil {
			all[i] = map[string]entry{}
		}
		e := entry{Secret: k.Secret, Namespace: namespace, NamespaceUID: types.UID(namespace + "1"), User: fmt.Sprint("user-", j)}
		if group != "" {
			e.Groups = []string{group}
		}
		all[i][k.ID] = e
	}
	for i, entries := range all {
		s.write(i, func(data map[string][]byte) {
			for id, e := range entries {
				if err := put(data, id, e); err != nil {
					s.Fatal(err)
				}
			}
		})
	}
}

// TestFullShards leaves room in one shard, then in none, then removes a namespace that used
// room.
func TestFullShards(t *testing.T) {
	s, ctx := newSafe(t), t.Context()
	s.addNamespace("large", "1")
	for i := range Shards {
		s.write(i, func(data map[string][]byte) {
			for size := 0; size < mostOfShard-20<<10 && i != 3; size = sizeOf(data) {
				k := fresh(Key{})
				if shardOf(k.ID) != i {
					continue
				}
				e := entry{Secret: k.Secret, Namespace: "large", NamespaceUID: "large1", User: "u", Groups: []string{strings.Repeat("g", 15<<10)}}
				if err := put(data, k.ID, e); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	long := []string{strings.Repeat("g", 15<<10)}
	for i := range Shards { // the remaining room is too small for two such keys
		if i != 3 {
			s.write(i, func(data map[string][]byte) {
				data["filler"] = make([]byte, mostOfShard-sizeOf(data)-len("filler"))
			})
		}
	}
	k, err := s.Make(ctx, Key{Namespace: "team", User: "ada", Groups: long})
	if err != nil || shardOf(k.ID) != 3 {
		t.Fatalf("%v in shard %d, want 3", err, shardOf(k.ID))
	}
	s.write(3, func(data map[string][]byte) { data["filler"] = make([]byte, mostOfShard-sizeOf(data)-len("filler")) })
	if _, err := s.Make(ctx, Key{Namespace: "team", User: "ada"}); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "muster-access-keys-0 to muster-access-keys-7") {
		t.Errorf("without room: %v", err)
	}
	if err := s.Delete(ctx, "team", k.ID, "ada"); err != nil {
		t.Errorf("deleting in a full shard: %v", err)
	}
	s.write(3, func(data map[string][]byte) { data["more"] = make([]byte, mostOfShard-sizeOf(data)-len("more")) })
	s.dropNamespace("large")
	s.make("team", "ada", 0)
	if data := s.data(); len(data["filler"]) == 0 || len(data) != 3 {
		t.Errorf("%d entries are left; want the key and the two fillers", len(data))
	}
}

// TestForeignEntries: the vault ignores and keeps entries of a shard that are no keys.
func TestForeignEntries(t *testing.T) {
	s := newSafe(t)
	good := `{"secret":"known","namespace":"team","namespaceUID":"team1","user":"admin","groups":["system:masters"]}`
	i := shardOf("MUGOOD")
	wrong := "MUWRONG"
	for n := 0; shardOf(wrong) == i; n++ {
		wrong = fmt.Sprint("MUWRONG", n)
	}
	foreign := map[string]string{
		"MU1": "{", "MU2": "null", "MU3": `{"secret":"s","namespace":"team","namespaceUID":"team1"}`, "MU4": `{"namespace":"team","namespaceUID":"team1","user":"u"}`,
		"MU5": strings.Replace(good, `"team"`, `7`, 1), "mulower": good, wrong: good, "MU6": strings.Replace(good, "}", `,"deleted":true}`, 1),
	}
	s.write(i, func(data map[string][]byte) {
		data["MUGOOD"] = []byte(good)
		for id, text := range foreign {
			data[id] = []byte(text)
		}
	})
	s.grants("MUGOOD", true)
	for id := range foreign {
		s.grants(id, false)
		if err := s.Delete(t.Context(), "team", id, "admin"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("deleting %s: %v", id, err)
		}
	}
	s.write(i, func(data map[string][]byte) { delete(data, "MUGOOD") })
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	for id, text := range foreign {
		if got := s.data()[id]; string(got) != text {
			t.Errorf("%s is %q, want %q", id, got, text)
		}
	}
	s.write(i, func(data map[string][]byte) { data["MUOTHER"] = []byte(strings.Replace(good, "team1", "", 1)) })
	s.grants("MUOTHER", false)
}

// TestForeignShard: another program has made a Secret with the name of a shard.
func TestForeignShard(t *testing.T) {
	s := newSafe(t)
	if err := s.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: ShardName(5)}, Type: corev1.SecretTypeOpaque}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Make(t.Context(), Key{Namespace: "team", User: "ada"}); err == nil || !strings.Contains(err.Error(), `Secret muster-system/muster-access-keys-5: its type is "Opaque"`) {
		t.Error(err)
	}
}

// TestReplicas: replicas make and delete keys at the same time. No write is lost, and no user
// gets more keys than allowed.
func TestReplicas(t *testing.T) {
	s, ctx := newSafe(t), t.Context()
	vaults := []*Vault{s.replica(), s.replica(), s.replica()}
	for range MostKeys - 2 {
		s.make("team", "ada", 0)
	}
	gone := s.make("team", "eve", 0)
	var mu sync.Mutex
	var made []Key
	var all sync.WaitGroup
	for i, v := range vaults {
		all.Go(func() {
			if err := v.Delete(ctx, "team", gone.ID, "eve"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
		for j := range 5 {
			for _, user := range []string{"ada", fmt.Sprint("user-", i, j)} {
				all.Go(func() {
					k, err := v.Make(ctx, Key{Namespace: "team", User: user})
					if err != nil && (user != "ada" || !errors.Is(err, ErrTooMany)) {
						t.Errorf("%s: %v", user, err)
					}
					if err == nil {
						mu.Lock()
						defer mu.Unlock()
						made = append(made, k)
					}
				})
			}
		}
	}
	all.Wait()
	s.grants(gone.ID, false)
	keys, err := s.List(ctx, "team")
	if err != nil {
		t.Fatal(err)
	}
	of, there := map[string]int{}, map[string]bool{}
	for i := range keys {
		of[keys[i].User]++
		there[keys[i].ID] = true
	}
	if of["ada"] > MostKeys || len(keys) != MostKeys-2+len(made) {
		t.Errorf("ada has %d; there are %d keys, and %d were made", of["ada"], len(keys), len(made))
	}
	for _, k := range made {
		if !there[k.ID] {
			t.Errorf("key %s of %s was lost", k.ID, k.User)
		}
	}
}

// TestLostAnswers: the API server writes, and its reply is lost.
func TestLostAnswers(t *testing.T) {
	s, ctx := newSafe(t), t.Context()
	lost := errors.New("the connection was lost")
	fail := func() error { return lost }
	s.fail.Store(&fail)
	if k, err := s.Make(ctx, Key{Namespace: "team", User: "ada"}); !errors.Is(err, lost) || k.Secret != "" {
		t.Errorf("%+v, %v", k, err)
	}
	s.fail.Store(nil)
	all, err := s.List(ctx, "team") // its user can see it and delete it
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	s.fail.Store(&fail)
	if err := s.Delete(ctx, "team", all[0].ID, "ada"); !errors.Is(err, lost) {
		t.Error(err)
	}
	s.fail.Store(nil)
	s.grants(all[0].ID, false)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Make(ended, Key{Namespace: "team", User: "ada"}); err == nil {
		t.Error("a key is made although nobody waits for it")
	}
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

// TestStrangeKeys: concurrent requests with unknown keys share one read, and the registry
// accepts a key that was made meanwhile.
func TestStrangeKeys(t *testing.T) {
	s := newSafe(t)
	known := &Registry{Vault: s.Vault}
	first := s.make("team", "ada", 0)
	if _, err := known.Grant(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	second, before := s.make("team", "ada", 0), s.looks.Load()
	// All of them send their request during one read, which takes a second.
	s.passed.Add(int64(lookAgain))
	hold := make(chan struct{})
	s.hold.Store(&hold)
	var all sync.WaitGroup
	for i := range mostStrangers - 1 { // one more has room
		all.Go(func() {
			if _, err := known.Grant(t.Context(), fmt.Sprintf("MUSTRANGE%d", i)); err == nil {
				t.Error("a key that nobody made is good")
			}
		})
	}
	all.Go(func() {
		if _, err := known.Grant(t.Context(), second.ID); err != nil {
			t.Error(err)
		}
	})
	s.strangersAre(mostStrangers)
	s.passed.Add(int64(lookAgain))
	close(hold)
	all.Wait()
	// The delayed read may have begun before the other requests; one more read serves all.
	if looks := s.looks.Load() - before; looks > 2 {
		t.Errorf("%d looks at all keys", looks)
	}
	if _, err := known.Grant(t.Context(), first.ID); err != nil {
		t.Error(err)
	}
}
