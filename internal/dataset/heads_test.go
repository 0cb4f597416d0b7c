package dataset

import (
	"context"
	"errors"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestWhoMovedAHeadNeedNotAsk moves heads of one object, alone and beside others.
func TestWhoMovedAHeadNeedNotAsk(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reads, patches := 0, 0
	server := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	object := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "digits"}}
	if err := server.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	id := func(n byte) digest.ID { return digest.Of([]byte{n}) }
	ours := &Heads{Client: server, Namespace: "team", Name: "digits"}
	theirs := &Heads{Client: server, Namespace: "team", Name: "digits"}
	for _, c := range []struct {
		name     string
		heads    *Heads
		branch   string
		from, to digest.ID
		// wantReads and wantPatches are what it costs, found where it is refused.
		wantReads, wantPatches int
		found                  digest.ID
	}{
		{name: "the first asks", heads: ours, branch: "main", to: id(1), wantReads: 1, wantPatches: 1},
		{name: "the next knows", heads: ours, branch: "main", from: id(1), to: id(2), wantPatches: 1},
		{name: "also of another head", heads: ours, branch: "next", to: id(2), wantPatches: 1},
		{name: "somebody else", heads: theirs, branch: "next", from: id(2), to: id(3), wantReads: 1, wantPatches: 1},
		{name: "after them", heads: ours, branch: "main", from: id(2), to: id(4), wantReads: 1, wantPatches: 2},
		{name: "and then again", heads: ours, branch: "main", from: id(4), to: id(5), wantPatches: 1},
		{name: "they know no better", heads: theirs, branch: "main", from: id(5), to: id(6), wantReads: 1, wantPatches: 1},
		{name: "we are overtaken", heads: ours, branch: "main", from: id(5), to: id(7), wantReads: 1, wantPatches: 1, found: id(6)},
		{name: "and ask", heads: ours, branch: "main", from: id(6), to: id(7), wantReads: 1, wantPatches: 1},
		{name: "from where it never was", heads: ours, branch: "main", from: id(9), to: id(8), wantReads: 1, found: id(7)},
		{name: "they go on", heads: theirs, branch: "main", from: id(7), to: id(8), wantReads: 1, wantPatches: 1},
	} {
		reads, patches = 0, 0
		err := c.heads.Swap(t.Context(), branch(c.branch).Move(c.from, c.to))
		moved, refused := errors.AsType[*ref.MovedError](err)
		if refused != !c.found.IsZero() || refused && moved.Found != c.found || !refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if reads != c.wantReads || patches != c.wantPatches {
			t.Errorf("%s: %d reads and %d patches, want %d and %d", c.name, reads, patches, c.wantReads, c.wantPatches)
		}
	}
	if err := server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Swap(t.Context(), branch("main").Move(id(8), id(9))); !errors.As(err, new(*MissingError)) {
		t.Errorf("of what was removed: %v", err)
	}
}

// TestAMoveShowsAllHeads moves one head after others did theirs.
func TestAMoveShowsAllHeads(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	lost := false
	server := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			err := c.Patch(ctx, o, p, opts...)
			if lost && err == nil {
				err = errors.New("the answer was lost")
			}
			return err
		},
	}).Build()
	if err := server.Create(t.Context(), &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "digits"}}); err != nil {
		t.Fatal(err)
	}
	id := func(n byte) digest.ID { return digest.Of([]byte{n}) }
	ours := &Heads{Client: server, Namespace: "team", Name: "digits"}
	theirs := &Heads{Client: server, Namespace: "team", Name: "digits"}
	for _, c := range []struct {
		name     string
		heads    *Heads
		branch   string
		from, to digest.ID
		lost     bool
		want     map[ref.Name]digest.ID
	}{
		{name: "the first", heads: ours, branch: "main", to: id(1), want: map[ref.Name]digest.ID{branch("main"): id(1)}},
		{name: "another's", heads: theirs, branch: "next", to: id(2), want: map[ref.Name]digest.ID{branch("main"): id(1), branch("next"): id(2)}},
		{name: "after another's", heads: ours, branch: "main", from: id(1), to: id(3), want: map[ref.Name]digest.ID{branch("main"): id(3), branch("next"): id(2)}},
		{name: "the answer is lost", heads: ours, branch: "main", from: id(3), to: id(4), lost: true, want: map[ref.Name]digest.ID{branch("main"): id(4), branch("next"): id(2)}},
		{name: "removed", heads: ours, branch: "next", from: id(2), want: map[ref.Name]digest.ID{branch("main"): id(4)}},
	} {
		lost = c.lost
		got, err := c.heads.SwapSeeing(t.Context(), branch(c.branch).Move(c.from, c.to))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
