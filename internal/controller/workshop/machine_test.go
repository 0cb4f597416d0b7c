package workshop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/bundle"
)

// onAMachine is a stage on which the shop looks at images, which are what is said here.
func onAMachine(t *testing.T) (s *stage, images map[string]Image) {
	t.Helper()
	s, images = newStage(t), map[string]Image{}
	s.shop.options.Look = func(name string) Image { return images[name] }
	return s, images
}

// wants is what a job's members want, and where.
func wants(namespace, image string) (*v1alpha1.TrainingJob, environment.Request) {
	job := aJob("a")
	job.Namespace = namespace
	return job, environment.Request{Requirements: "numpy", Image: image}
}

// builds are the builds that there are, by their whole keys.
func (s *stage) builds() map[string]bool {
	s.Helper()
	var pods corev1.PodList
	if err := s.List(s.Context(), &pods); err != nil {
		s.Fatal(err)
	}
	keys := map[string]bool{}
	for i := range pods.Items {
		keys[pods.Items[i].Spec.Volumes[0].CSI.VolumeAttributes["key"]] = true
	}
	return keys
}

// TestWhatAnImageIsCounts: on one machine, and not how it is called; those of namespaces,
// who build in one place there, are kept apart.
func TestWhatAnImageIsCounts(t *testing.T) {
	s, images := onAMachine(t)
	images["python:3.13"], images["same:1"], images["other:1"] = Image{Digest: "sha256:a"}, Image{Digest: "sha256:a"}, Image{Digest: "sha256:b"}
	for _, c := range []struct {
		name, namespace, image string
		builds                 int // that there are then
	}{
		{"the first", "vision", "python:3.13", 1},
		{"the same by another name", "vision", "same:1", 1},
		{"another one", "vision", "other:1", 2},
		{"another namespace", "speech", "python:3.13", 3},
	} {
		if state := s.shop.Ensure(wants(c.namespace, c.image)); state.Phase != environment.Building || state.Key == "" {
			t.Fatalf("%s: %+v", c.name, state)
		}
		if got := s.builds(); len(got) != c.builds {
			t.Errorf("%s: there are %v", c.name, got)
		}
	}
	// Its tag was moved.
	before := s.shop.Ensure(wants("vision", "python:3.13")).Key
	images["python:3.13"] = Image{Digest: "sha256:c"}
	if after := s.shop.Ensure(wants("vision", "python:3.13")).Key; after == before || len(s.builds()) != 4 {
		t.Errorf("moved: %s, then %s", before, after)
	}
}

// TestAnImageIsLookedAtFirst: as long as it is not known what it is nothing is built.
func TestAnImageIsLookedAtFirst(t *testing.T) {
	s, images := onAMachine(t)
	for _, c := range []struct {
		name  string
		image Image
		phase environment.Phase
		says  string
		made  int
	}{
		{"not here yet", Image{Message: "the image is being fetched"}, environment.Building, "is being fetched", 0},
		{"no such image", Image{Failed: true, Message: "no name of an image"}, environment.Failed, "no name of an image", 0},
		{"here", Image{Digest: "sha256:a"}, environment.Building, "a pod is made", 1},
	} {
		images["python:3.13"] = c.image
		state := s.shop.Ensure(wants("vision", "python:3.13"))
		if state.Phase != c.phase || !strings.Contains(state.Message, c.says) || len(s.builds()) != c.made {
			t.Errorf("%s: %+v; %v", c.name, state, s.builds())
		}
		if c.name == "not here yet" {
			s.asked()
		}
	}
}

// TestABuildOnAMachine runs in what was looked up, with what this machine's own installs
// are told; what is in a variable is no reference to another one.
func TestABuildOnAMachine(t *testing.T) {
	s, images := onAMachine(t)
	images["python:latest"] = Image{Digest: "sha256:a"}
	s.shop.options.Variables = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://me:a$(b)@proxy:1"}}
	job, request := wants("vision", "python:latest")
	always := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", ImagePullPolicy: corev1.PullAlways}}}
	job.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: always}
	state := s.shop.Ensure(job, request)
	pod := &corev1.Pod{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: nameOf(state.Key)}, pod); err != nil {
		t.Fatal(err)
	}
	main := pod.Spec.Containers[0]
	if main.Image != "python:latest" || main.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("it runs in %s, pulled %s", main.Image, main.ImagePullPolicy)
	}
	if got := fmt.Sprint(main.Env[len(main.Env)-1]); !strings.Contains(got, "HTTPS_PROXY http://me:a$$(b)@proxy:1") {
		t.Errorf("it is told %s", got)
	}
	// On a cluster it is pulled as the members' images are.
	s.shop.options.Look = nil
	if pulled := s.shop.options.podFor(customer{namespace: "vision", roles: job.Spec.Roles}, aBuild(t)).Spec.Containers[0].ImagePullPolicy; pulled != corev1.PullAlways {
		t.Errorf("on a cluster it is pulled %s", pulled)
	}
}

// TestFoundOnAMachine: what was built only has to be found; what was removed since is
// built again, and what cannot be used is said.
func TestFoundOnAMachine(t *testing.T) {
	for name, c := range map[string]struct {
		since time.Duration
		here  bool
		do    action
		says  string
	}{
		"just ended":               {time.Second, true, nothing, "it is looked for"},
		"long ended":               {time.Minute, true, remove, "is not on this machine any more; it begins anew"},
		"long ended, on a cluster": {time.Minute, false, nothing, "brings it to the store"},
	} {
		o := observed{build: aBuild(t), here: c.here, now: noon}
		o.pod = New(Options{}).options.podFor(customer{namespace: "vision"}, o.build)
		ends(corev1.PodSucceeded, c.since, "")(o.pod)
		if state, do := decide(o); state.Phase != environment.Building || do != c.do || !strings.Contains(state.Message, c.says) {
			t.Errorf("%s: %+v, to do %q", name, state, do)
		}
	}
	s, images := onAMachine(t)
	images["python:3.13"] = Image{Digest: "sha256:a"}
	s.shop.options.Store = unusable{}
	if state := s.shop.Ensure(wants("vision", "python:3.13")); state.Phase != environment.Failed || !strings.Contains(state.Message, "cannot be used: nobody takes this environment: the search path is none") || len(s.builds()) != 0 {
		t.Errorf("it is told %+v", state)
	}
}

// unusable are environments of which the note says what cannot be.
type unusable struct{}

func (unusable) Environment(context.Context, string, string) (bundle.Packed, error) {
	return bundle.Packed{}, fmt.Errorf("%w: the search path is none", bundle.ErrUnwanted)
}
