package release

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// hung is a gang of two members whose second one is on a node that is gone.
func hung(t *testing.T) client.WithWatch {
	t.Helper()
	objects := append(sample.Work("resnet", "", "ada@box", 0, 2, v1alpha1.GangRunning), sample.Box())
	for _, o := range objects {
		switch o := o.(type) {
		case *v1alpha1.Gang:
			o.Status.Attempt = 1
		case *v1alpha1.Placement:
			o.Labels = map[string]string{v1alpha1.LabelGang: "resnet"}
		}
	}
	controller := true
	for i, node := range []string{"box", "gpu2"} {
		index := string(rune('0' + i))
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "resnet-worker-" + index,
				Labels:          map[string]string{v1alpha1.LabelGang: "resnet", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: index},
				Annotations:     map[string]string{v1alpha1.AnnotationGPUs: string(rune('a' + i))},
				OwnerReferences: []metav1.OwnerReference{{Kind: "Gang", Name: "resnet", UID: "uid-resnet", Controller: &controller}},
			},
			Spec:   corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return sample.World(t, objects...)
}

func testOptions(in io.Reader) (o *options, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &options{streams: terminal.Streams{In: in, Out: out, Err: errs, NoColor: true}, who: "ada@box", force: true, patience: time.Minute}, out, errs
}

func ordered(t *testing.T, server client.Client) string {
	t.Helper()
	var gang v1alpha1.Gang
	if err := server.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "resnet"}, &gang); err != nil {
		t.Fatal(err)
	}
	return gang.Annotations[v1alpha1.AnnotationRelease]
}

// The order is given, and what may still be running is said before and after.
func TestReleaseSaysWhatMayRunOn(t *testing.T) {
	server := hung(t)
	o, out, errs := testOptions(nil)
	o.yes, o.noWait = true, true
	if err := o.run(t.Context(), server, "default", "resnet"); err != nil {
		t.Fatal(err)
	}
	if got := ordered(t, server); got != "1 ada@box" {
		t.Errorf("order %q", got)
	}
	if out.String() != "resnet releasing: 2 GPUs\n" {
		t.Errorf("said %q", out)
	}
	want := `These members of resnet are not waited for; what they hold is given to others:

  MEMBER    NODE  GPUS      STATE
  worker-0  box   0 (A100)  running
  worker-1  gpu2  b         running; node is gone

warning: worker-1 may still run on gpu2, on GPU b (node is gone): make sure that it is gone before the node is used again
`
	if errs.String() != want {
		t.Errorf("said:\n%swant:\n%s", errs, want)
	}
}

// A user without the right to read nodes gets a message about it, and can release their own jobs.
func TestReleaseOfATenant(t *testing.T) {
	server := interceptor.NewClient(hung(t), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*corev1.NodeList); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
			}
			return c.List(ctx, list, options...)
		},
	})
	o, out, errs := testOptions(nil)
	o.yes, o.noWait = true, true
	if err := o.run(t.Context(), server, "default", "resnet"); err != nil {
		t.Fatal(err)
	}
	if got := ordered(t, server); got != "1 ada@box" || out.String() != "resnet releasing: 2 GPUs\n" {
		t.Errorf("order %q, said %q", got, out)
	}
	if want := "worker-0 may still run on box, on GPU a (you may not see whether its node answers)"; !strings.Contains(errs.String(), want) {
		t.Errorf("said %s, want %q", errs, want)
	}
}

func TestConfirmation(t *testing.T) {
	for _, c := range []struct {
		name   string
		asks   bool
		answer string
		code   exit.Code
		order  string
	}{
		{"yes", true, "y\n", exit.OK, "1 ada@box"},
		{"yes in full", true, "Yes\n", exit.OK, "1 ada@box"},
		{"no", true, "n\n", exit.Failure, ""},
		{"nothing", true, "\n", exit.Failure, ""},
		{"the end of the input", true, "", exit.Failure, ""},
		{"nobody to ask", false, "y\n", exit.Misuse, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := hung(t)
			o, _, _ := testOptions(strings.NewReader(c.answer))
			o.asks, o.noWait = c.asks, true
			err := o.run(t.Context(), server, "default", "resnet")
			if code, _ := exit.Of(err); code != c.code {
				t.Errorf("error %v, code %d, want %d", err, code, c.code)
			}
			if got := ordered(t, server); got != c.order {
				t.Errorf("order %q, want %q", got, c.order)
			}
		})
	}
}

// ^C at the question changes nothing.
func TestInterruptedQuestion(t *testing.T) {
	server := hung(t)
	in, typed := io.Pipe()
	defer func() { _ = typed.Close() }()
	o, _, _ := testOptions(in)
	o.asks = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.confirm(ctx, "resnet"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := ordered(t, server); got != "" {
		t.Errorf("order %q", got)
	}
}

// obeys carries the order out the moment it is given, as the gang's controller
// does.
type obeys struct {
	client.WithWatch
	but string
}

func (c obeys) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := c.WithWatch.Patch(ctx, o, patch, opts...); err != nil {
		return err
	}
	if c.but == "nothing" {
		return nil
	}
	if err := c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default")); err != nil {
		return err
	}
	return c.DeleteAllOf(ctx, &v1alpha1.Placement{}, client.InNamespace("default"))
}

func TestWait(t *testing.T) {
	o, out, _ := testOptions(nil)
	o.yes = true
	if err := o.run(t.Context(), obeys{WithWatch: hung(t)}, "default", "resnet"); err != nil || out.String() != "resnet released: 2 GPUs\n" {
		t.Errorf("error %v, said %q", err, out)
	}
	o, _, _ = testOptions(nil)
	o.yes, o.patience = true, time.Nanosecond
	err := o.run(t.Context(), obeys{WithWatch: hung(t), but: "nothing"}, "default", "resnet")
	if err == nil || !strings.Contains(err.Error(), "resnet is not released after") || !strings.Contains(err.Error(), "muster status") {
		t.Errorf("error %v", err)
	}
}

func TestWhatHoldsNothing(t *testing.T) {
	server := sample.World(t, sample.Work("resnet", "", "ada", 0, 2, v1alpha1.GangPending)...)
	o, out, _ := testOptions(nil)
	if err := o.run(t.Context(), server, "default", "resnet"); err != nil || out.String() != "resnet holds nothing\n" {
		t.Errorf("error %v, said %q", err, out)
	}
	err := o.run(t.Context(), server, "default", "resnt")
	if code, _ := exit.Of(err); code != exit.Missing || !strings.HasSuffix(err.Error(), "did you mean resnet?") {
		t.Errorf("error %v", err)
	}
}
