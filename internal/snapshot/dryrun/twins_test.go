package dryrun

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// twin is a gang of one pod as the job of that name makes it.
func twin(name string, edit ...func(*corev1.PodTemplateSpec)) *v1alpha1.Gang {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelJob: name}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "pause", Env: []corev1.EnvVar{{Name: v1alpha1.EnvJob, Value: name}}}},
			Volumes: []corev1.Volume{{Name: "muster-checkpoints", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-checkpoints"},
			}}},
		},
	}
	for _, e := range edit {
		e(&t)
	}
	return &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v1alpha1.GangSpec{Roles: []v1alpha1.GangRole{{Name: "worker", Replicas: 1, Template: t}}},
	}
}

// asked answers dry runs and counts them.
func asked(n *atomic.Int32, answer func(*corev1.Pod) error) client.Client {
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			n.Add(1)
			return answer(o.(*corev1.Pod))
		},
	})
}

func TestPodsThatAreAlikeAreAskedForOnce(t *testing.T) {
	image := func(to string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = to }
	}
	for name, tt := range map[string]struct {
		gangs []*v1alpha1.Gang
		asked int32
	}{
		"names alone differ":       {[]*v1alpha1.Gang{twin("a"), twin("b"), twin("abc")}, 1},
		"the image differs":        {[]*v1alpha1.Gang{twin("a"), twin("b", image("other"))}, 2},
		"an image like the name":   {[]*v1alpha1.Gang{twin("a", image("a")), twin("b", image("b"))}, 2},
		"a label of somebody else": {[]*v1alpha1.Gang{twin("a"), twin("b", func(t *corev1.PodTemplateSpec) { t.Labels["team"] = "b" })}, 2},
		"a claim of somebody else": {[]*v1alpha1.Gang{twin("a"), twin("b", func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "a-checkpoints"
		})}, 2},
		"another namespace": {[]*v1alpha1.Gang{twin("a"), func() *v1alpha1.Gang { g := twin("b"); g.Namespace = "other"; return g }()}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			woken := make(chan types.UID, 8)
			l := New(asked(&n, func(p *corev1.Pod) error {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
				return nil
			}), allThere{}, conversion.GPUResources{v1alpha1.ResourceGPU}, func(u types.UID) { woken <- u }, 4)
			for _, g := range tt.gangs {
				l.Look(t.Context(), g, time.Now())
				<-woken
				got, known := l.Look(t.Context(), g, time.Now())
				if !known || len(got.Roles) != 1 || got.Roles[0].Resources.MilliCPU != 250 {
					t.Errorf("of %s is known %v: %+v", g.Name, known, got)
				}
			}
			if n.Load() != tt.asked {
				t.Errorf("asked %d times, want %d", n.Load(), tt.asked)
			}
		})
	}
}

// TestAChangeIsOfItsNamespace: a user who changes objects of their namespace does not make the
// gangs of others ask again.
func TestAChangeIsOfItsNamespace(t *testing.T) {
	for changed, want := range map[string]int32{"other": 1, "default": 2, "": 2} {
		t.Run(changed, func(t *testing.T) {
			var n atomic.Int32
			woken := make(chan types.UID, 8)
			l := New(asked(&n, func(*corev1.Pod) error { return nil }), allThere{}, conversion.GPUResources{v1alpha1.ResourceGPU}, func(u types.UID) { woken <- u }, 4)
			for _, name := range []string{"a", "b"} {
				l.Look(t.Context(), twin(name), time.Now())
				<-woken
				l.Hurry(changed)
			}
			if n.Load() != want {
				t.Errorf("asked %d times, want %d", n.Load(), want)
			}
		})
	}
}

// allThere reports that pods name no missing object.
type allThere struct{}

func (allThere) Missing(context.Context, string, *corev1.PodSpec) (string, error) { return "", nil }

// Asking is true during the first refusals, and false after an acceptance or a firm
// refusal.
func TestAFirstNoIsNoAnswer(t *testing.T) {
	for name, noes := range map[string]int32{"for a moment": 2, "for good": 1000} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			woken := make(chan types.UID, 64)
			l := New(asked(&n, func(p *corev1.Pod) error {
				if n.Load() <= noes {
					return apierrors.NewForbidden(corev1.Resource("pods"), p.GenerateName, errors.New(`serviceaccount "default" not found`))
				}
				return nil
			}), allThere{}, conversion.GPUResources{v1alpha1.ResourceGPU}, func(u types.UID) { woken <- u }, 4)
			now := time.Now()
			for l.Look(t.Context(), twin("a"), now); l.Asking(); l.Look(t.Context(), twin("a"), now) {
				<-woken
				now = now.Add(lastAsk)
			}
			got, known := l.Look(t.Context(), twin("a"), now)
			l.Wait()
			if refused := got.Refused != ""; !known || refused != (noes == 1000) || n.Load() < min(noes, FirmAsks) {
				t.Errorf("asked %d times, known %v: %+v", n.Load(), known, got)
			}
		})
	}
}

// Gangs do not share refusals: the next gang makes its own dry run.
func TestNoIsNotShared(t *testing.T) {
	var n atomic.Int32
	woken := make(chan types.UID, 8)
	l := New(asked(&n, func(p *corev1.Pod) error {
		if n.Load() > 1 {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("pods"), p.GenerateName, errors.New("exceeded quota: small"))
	}), allThere{}, conversion.GPUResources{v1alpha1.ResourceGPU}, func(u types.UID) { woken <- u }, 4)
	for i, name := range []string{"a", "b"} {
		l.Look(t.Context(), twin(name), time.Now())
		for u := range woken {
			if string(u) == name {
				break
			}
		}
		got, known := l.Look(t.Context(), twin(name), time.Now())
		if refused := got.Refused != ""; !known || refused != (i == 0) {
			t.Errorf("of %s is known %v: %+v", name, known, got)
		}
	}
	l.Wait()
}
