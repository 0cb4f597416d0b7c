//go:build embedded

package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

// TestHeads runs the heads against a real API server.
func TestHeads(t *testing.T) {
	s := start(t)
	t.Run("rules", s.rules)
	t.Run("lives", s.lives)
	t.Run("two at once", s.twoAtOnce)
	t.Run("many at once", s.manyAtOnce)
	t.Run("a lost answer", s.lostAnswer)
	t.Run("heads that move together", s.together)
	t.Run("owners", s.owners)
	t.Run("roots", s.roots)
}

// namespace is where the datasets of most tests are.
const namespace = "team"

type server struct{ client.WithWatch }

func start(t *testing.T) server {
	t.Helper()
	plane := planetest.Start(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config := plane.RESTConfig()
	config.QPS = -1
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	return server{api}
}

// dataset makes one and returns its heads.
func (s server) dataset(t *testing.T, name string) *dataset.Heads {
	t.Helper()
	object := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := s.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return &dataset.Heads{Client: s, Namespace: namespace, Name: name}
}

func id(of any) digest.ID { return digest.Of(fmt.Append(nil, of)) }

func branch(name string) ref.Name { return ref.Name{Kind: ref.Branch, Name: name} }
func opened(name string) ref.Name { return ref.Name{Kind: ref.Open, Name: name} }
func tag(name string) ref.Name    { return ref.Name{Kind: ref.Tag, Name: name} }

// rules are those of the kind itself, for whoever writes it by hand.
func (s server) rules(t *testing.T) {
	commit := v1alpha1.DatasetCommit(id(1).String())
	for _, c := range []struct {
		name string
		spec v1alpha1.DatasetSpec
		says string
	}{
		{name: "fine", spec: v1alpha1.DatasetSpec{Branches: []v1alpha1.DatasetBranch{{Name: "main", Commit: commit}}, Tags: []v1alpha1.DatasetTag{{Name: "v1.0", Commit: commit}}}},
		{name: "no-commit", spec: v1alpha1.DatasetSpec{Branches: []v1alpha1.DatasetBranch{{Name: "main", Commit: "latest"}}}, says: "spec.branches[0].commit"},
		{name: "slash", spec: v1alpha1.DatasetSpec{Tags: []v1alpha1.DatasetTag{{Name: "a/b", Commit: commit}}}, says: "spec.tags[0].name"},
		{name: "twice", spec: v1alpha1.DatasetSpec{Tags: []v1alpha1.DatasetTag{{Name: "a", Commit: commit}, {Name: "a", Commit: commit}}}, says: "Duplicate value"},
		{name: "negative", spec: v1alpha1.DatasetSpec{Branches: []v1alpha1.DatasetBranch{{Name: "main", Commit: commit, Bytes: -1}}}, says: "spec.branches[0].bytes"},
		{name: "words", spec: v1alpha1.DatasetSpec{Description: strings.Repeat("a", 1025)}, says: "spec.description"},
		{name: "ab", says: "3 to 63 lower-case letters"},
		{name: "a.b.c", says: "3 to 63 lower-case letters"},
	} {
		err := s.Create(t.Context(), &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.name}, Spec: c.spec})
		if c.says == "" && err != nil || c.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// lives takes heads through what becomes of them.
func (s server) lives(t *testing.T) {
	ctx, heads := t.Context(), s.dataset(t, "lives")
	heads.Measure = func(_ context.Context, commit digest.ID) (dataset.Size, error) {
		if commit == id("damaged") {
			return dataset.Size{}, errors.New("it cannot be read")
		}
		return dataset.Size{Files: 7, Bytes: 1 << 40}, nil
	}
	expect := func(what string, err error, want string) {
		t.Helper()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	_, err := heads.Get(ctx, branch("main"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	expect("the first", heads.Swap(ctx, branch("main").Move(digest.ID{}, id(1))), "")
	expect("a branch that is there", heads.Swap(ctx, branch("main").Move(digest.ID{}, id(2))), "there is a branch main already")
	expect("the second", heads.Swap(ctx, branch("main").Move(id(1), id(2))), "")
	expect("one that cannot be read", heads.Swap(ctx, branch("main").Move(id(2), id("damaged"))), "it cannot be read")
	expect("a tag", heads.Swap(ctx, tag("v1").Move(digest.ID{}, id(1))), "")
	expect("a tag again", heads.Swap(ctx, tag("v1").Move(digest.ID{}, id(2))), "there is a tag v1 already")
	expect("a name that the object cannot hold", heads.Swap(ctx, branch("a/b").Move(digest.ID{}, id(1))), "no name for a branch")
	expect("another", heads.Swap(ctx, branch("next").Move(digest.ID{}, id(2))), "")
	expect("which goes", heads.Swap(ctx, branch("next").Move(id(2), digest.ID{})), "")
	got, err := heads.List(ctx)
	if diff := cmp.Diff(map[ref.Name]digest.ID{branch("main"): id(2), tag("v1"): id(1)}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	object := &v1alpha1.Dataset{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "lives"}, object); err != nil {
		t.Fatal(err)
	}
	if b := object.Spec.Branches[0]; b.Files != 7 || b.Bytes != 1<<40 || b.Moved == nil {
		t.Errorf("the object says %+v", b)
	}
	if err := s.Delete(ctx, object); err != nil {
		t.Fatal(err)
	}
	err = heads.Swap(ctx, branch("main").Move(id(2), id(3)))
	if _, missing := errors.AsType[*dataset.MissingError](err); !missing || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was deleted: %v", err)
	}
}

// gate holds writes back until several are about to be made, so that all of
// them have read the same object.
type gate struct {
	mu      sync.Mutex
	waiting int
	open    chan struct{}
	want    int
}

func (g *gate) wait() {
	g.mu.Lock()
	g.waiting++
	if g.waiting == g.want {
		close(g.open)
	}
	g.mu.Unlock()
	<-g.open
}

// through is a client whose first write waits at the gate.
func (s server) through(g *gate) client.Client {
	var once sync.Once
	return interceptor.NewClient(s.WithWatch, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			once.Do(g.wait)
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// twoAtOnce moves one branch from the same commit twice: one is told that it
// was overtaken.
func (s server) twoAtOnce(t *testing.T) {
	ctx, heads := t.Context(), s.dataset(t, "two-at-once")
	if err := heads.Swap(ctx, branch("main").Move(digest.ID{}, id(0))); err != nil {
		t.Fatal(err)
	}
	g := &gate{open: make(chan struct{}), want: 2}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		mine := dataset.Heads{Namespace: heads.Namespace, Name: heads.Name}
		mine.Client = s.through(g)
		wg.Go(func() { errs[i] = mine.Swap(ctx, branch("main").Move(id(0), id(i+1))) })
	}
	wg.Wait()
	winner := slices.Index(errs, nil)
	if winner < 0 || errs[1-winner] == nil {
		t.Fatalf("both or none: %v", errs)
	}
	moved, ok := errors.AsType[*ref.MovedError](errs[1-winner])
	if !ok || moved.Thought != id(0) || moved.Found != id(winner+1) {
		t.Errorf("the other was told: %v", errs[1-winner])
	}
	if at, err := heads.Get(ctx, branch("main")); err != nil || at != id(winner+1) {
		t.Errorf("%v, %v", at, err)
	}
}

// manyAtOnce moves different heads of one object: all of them get there.
func (s server) manyAtOnce(t *testing.T) {
	const writers, rounds = 6, 5
	ctx, heads := t.Context(), s.dataset(t, "many-at-once")
	g := &gate{open: make(chan struct{}), want: writers}
	var wg sync.WaitGroup
	for w := range writers {
		mine := dataset.Heads{Namespace: heads.Namespace, Name: heads.Name}
		mine.Client = s.through(g)
		wg.Go(func() {
			var at digest.ID
			for round := range rounds {
				next := id(fmt.Sprint(w, " ", round))
				if err := mine.Swap(ctx, branch(fmt.Sprintf("b%d", w)).Move(at, next)); err != nil {
					t.Error(err)
					return
				}
				at = next
			}
		})
	}
	wg.Wait()
	got, err := heads.List(ctx)
	if err != nil || len(got) != writers {
		t.Fatalf("%v, %v", got, err)
	}
	for w := range writers {
		if at := got[branch(fmt.Sprintf("b%d", w))]; at != id(fmt.Sprint(w, " ", rounds-1)) {
			t.Errorf("writer %d lost its last commit", w)
		}
	}
}

// lostAnswer cuts the connection after the server has done it, and before.
func (s server) lostAnswer(t *testing.T) {
	ctx, heads := t.Context(), s.dataset(t, "lost-answer")
	cut := errors.New("connection reset by peer")
	losing := func(does bool) *dataset.Heads {
		mine := dataset.Heads{Namespace: heads.Namespace, Name: heads.Name}
		mine.Client = interceptor.NewClient(s.WithWatch, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if does {
					if err := c.Patch(ctx, o, p, opts...); err != nil {
						return err
					}
				}
				return cut
			},
		})
		return &mine
	}
	if err := losing(false).Swap(ctx, branch("main").Move(digest.ID{}, id(1))); !errors.Is(err, cut) {
		t.Errorf("not done, and told %v", err)
	}
	if err := losing(true).Swap(ctx, branch("main").Move(digest.ID{}, id(1))); err != nil {
		t.Errorf("done, and told %v", err)
	}
	if at, err := heads.Get(ctx, branch("main")); err != nil || at != id(1) {
		t.Errorf("%v, %v", at, err)
	}
	both := []ref.Move{branch("main").Move(id(1), id(2)), opened("main").Move(digest.ID{}, id(3)), opened("next").Stays(digest.ID{})}
	if err := losing(false).Swap(ctx, both...); !errors.Is(err, cut) {
		t.Errorf("not done of two, and told %v", err)
	}
	if err := losing(true).Swap(ctx, both...); err != nil {
		t.Errorf("done with two, and told %v", err)
	}
	if err := losing(false).Swap(ctx, branch("main").Stays(id(2)), opened("next").Stays(digest.ID{})); err != nil {
		t.Errorf("conditions that hold, and told %v", err)
	}
	if err := losing(false).Swap(ctx, branch("main").Stays(id(1)), opened("next").Stays(digest.ID{})); err == nil {
		t.Error("a condition that does not hold does")
	}
	got, err := heads.List(ctx)
	if diff := cmp.Diff(map[ref.Name]digest.ID{branch("main"): id(2), opened("main"): id(3)}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// together has many move a branch while nothing is open, and one open, close and open all
// the time: no move of the branch comes in between.
func (s server) together(t *testing.T) {
	ctx, made := t.Context(), s.dataset(t, "together")
	heads := func() *dataset.Heads {
		return &dataset.Heads{Client: s, Namespace: made.Namespace, Name: made.Name}
	}
	expect := func(what string, err error, moved bool) {
		t.Helper()
		if _, is := errors.AsType[*ref.MovedError](err); is != moved || (err != nil) != moved {
			t.Errorf("%s: %v", what, err)
		}
	}
	main, open := branch("main"), opened("main")
	expect("the branch, with nothing open", heads().Swap(ctx, main.Move(digest.ID{}, id(0)), open.Stays(digest.ID{})), false)
	expect("on another commit", heads().Swap(ctx, open.Move(digest.ID{}, id("open")), main.Stays(id(1))), true)
	expect("opened", heads().Swap(ctx, open.Move(digest.ID{}, id("open")), main.Stays(id(0))), false)
	expect("the branch, with something open", heads().Swap(ctx, main.Move(id(0), id(1)), open.Stays(digest.ID{})), true)
	expect("closed on another", heads().Swap(ctx, main.Move(id(1), id(2)), open.Move(id("open"), digest.ID{})), true)
	expect("closed", heads().Swap(ctx, main.Move(id(0), id("0 closed")), open.Move(id("open"), digest.ID{})), false)
	// Who recalls where a head was, and asks whether it is there still.
	mine := heads()
	expect("moved", mine.Swap(ctx, main.Move(id("0 closed"), id("mine"))), false)
	expect("it stays", mine.Swap(ctx, main.Stays(id("mine"))), false)
	expect("moved by another", heads().Swap(ctx, main.Move(id("mine"), id("theirs"))), false)
	expect("it does not stay", mine.Swap(ctx, main.Stays(id("mine"))), true)
	const writers, each, turns = 3, 10, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			mine := heads()
			for n := 0; n < each && ctx.Err() == nil; {
				at, err := mine.Get(ctx, main)
				if err == nil {
					err = mine.Swap(ctx, main.Move(at, id(fmt.Sprint(w, " ", n))), open.Stays(digest.ID{}))
				}
				if _, moved := errors.AsType[*ref.MovedError](err); err != nil && !moved {
					t.Error(err)
					return
				} else if !moved {
					n++
				}
			}
		})
	}
	wg.Go(func() {
		mine := heads()
		for n := range turns {
			var at digest.ID
			for err := error(&ref.MovedError{}); err != nil && ctx.Err() == nil; {
				if at, err = mine.Get(ctx, main); err == nil {
					err = mine.Swap(ctx, open.Move(digest.ID{}, id(fmt.Sprint("open ", n))), main.Stays(at))
				}
				if _, moved := errors.AsType[*ref.MovedError](err); err != nil && !moved {
					t.Error(err)
					return
				}
			}
			if now, err := mine.Get(ctx, main); err != nil || now != at {
				t.Errorf("the branch moved while a commit was open, %v", err)
			}
			expect("closed", mine.Swap(ctx, main.Move(at, id(fmt.Sprint("closed ", n))), open.Move(id(fmt.Sprint("open ", n)), digest.ID{})), false)
		}
	})
	wg.Wait()
}

// owners moves heads of an object that nobody has applied, of which the server does not
// note who owns what from then on, and of one that somebody has, who goes on owning it.
func (s server) owners(t *testing.T) {
	ctx := t.Context()
	noted := func(name string) (all []string) {
		t.Helper()
		object := &v1alpha1.Dataset{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			t.Fatal(err)
		}
		for _, o := range object.ManagedFields {
			all = append(all, fmt.Sprintf("%s %s", o.Manager, o.Operation))
		}
		return all
	}
	made := s.dataset(t, "made")
	from := digest.ID{}
	for i := range 3 {
		if err := made.Swap(ctx, branch("main").Move(from, id(i))); err != nil {
			t.Fatal(err)
		}
		from = id(i)
		if now := noted("made"); len(now) > 0 {
			t.Errorf("after %d moves: %q", i+1, now)
		}
	}
	byKubectl := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-kubectl"}, Spec: v1alpha1.DatasetSpec{Description: "applied"}}
	if err := s.Create(ctx, byKubectl, client.FieldOwner("kubectl-client-side-apply")); err != nil {
		t.Fatal(err)
	}
	if err := (&dataset.Heads{Client: s, Namespace: namespace, Name: "by-kubectl"}).Swap(ctx, branch("main").Move(digest.ID{}, id("x"))); err != nil {
		t.Fatal(err)
	}
	if now := noted("by-kubectl"); !slices.Contains(now, "kubectl-client-side-apply Update") {
		t.Errorf("after a move of what kubectl applied: %q", now)
	}
	apply := func(description string) error {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"description": description}}}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Dataset"))
		object.SetNamespace(namespace)
		object.SetName("applied")
		return s.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("git"))
	}
	if err := apply("as it was"); err != nil {
		t.Fatal(err)
	}
	applied := &dataset.Heads{Client: s, Namespace: namespace, Name: "applied"}
	if err := applied.Swap(ctx, branch("main").Move(digest.ID{}, id("x"))); err != nil {
		t.Fatal(err)
	}
	if now := noted("applied"); !slices.Contains(now, "git Apply") {
		t.Errorf("after a move of what was applied: %q", now)
	}
	if err := apply("as it is"); err != nil {
		t.Errorf("applied again, without a word to anybody: %v", err)
	}
	if at, err := applied.Get(ctx, branch("main")); err != nil || at != id("x") {
		t.Errorf("where it is after that: %v, %v", at, err)
	}
}

// roots are those of all namespaces, and unknown where one cannot be read.
// reads makes a job whose status says that it reads a commit.
func (s server) reads(t *testing.T, name string, phase v1alpha1.JobPhase) {
	t.Helper()
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: name}, Spec: v1alpha1.TrainingJobSpec{
		Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}}},
		Data:  []v1alpha1.JobData{{Dataset: "far", Version: "main~1", Path: "/train", Mount: "/data"}},
	}}
	if err := s.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	job.Status.Phase = phase
	job.Status.Data = []v1alpha1.JobDataStatus{{Mount: "/data", Dataset: "far", Version: "main~1", Path: "/train", Commit: v1alpha1.DatasetCommit(id(name).String())}}
	if err := s.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

func (s server) roots(t *testing.T) {
	ctx := t.Context()
	if err := s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}); err != nil {
		t.Fatal(err)
	}
	far := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "far"}}
	if err := s.Create(ctx, far); err != nil {
		t.Fatal(err)
	}
	heads := &dataset.Heads{Client: s, Namespace: "elsewhere", Name: "far"}
	for name, at := range map[ref.Name]digest.ID{branch("main"): id("far"), tag("v1"): id("tagged"), branch("same"): id("far")} {
		if err := heads.Swap(ctx, name.Move(digest.ID{}, at)); err != nil {
			t.Fatal(err)
		}
	}
	s.reads(t, "waits", v1alpha1.JobWaiting)
	s.reads(t, "failed", v1alpha1.JobFailed)
	all := dataset.Everything{Client: s}
	roots, err := all.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[ref.Name]digest.ID{
		branch("elsewhere/far/main"): id("far"), tag("elsewhere/far/v1"): id("tagged"), branch(namespace + "/lost-answer/main"): id(2), opened(namespace + "/lost-answer/main"): id(3),
		tag("elsewhere/job waits/0"): id("waits"), tag("elsewhere/job failed/0"): {},
	} {
		if roots[name] != want {
			t.Errorf("%s is missing among %v", name, roots)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if roots, err := all.List(ended); err == nil || roots != nil {
		t.Errorf("nobody was asked, and it is known: %v", roots)
	}
}
