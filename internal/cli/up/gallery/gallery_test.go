package gallery

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/node/image"
)

// registry answers when it is told to.
type registry struct {
	mu    sync.Mutex
	asked int
	gate  chan struct{}
	err   error
}

func (r *registry) Fetch(ctx context.Context, q image.Request) (image.Image, error) {
	r.mu.Lock()
	r.asked++
	gate, err := r.gate, r.err
	r.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return image.Image{}, ctx.Err()
	}
	return image.Image{Name: q.Name, Digest: "sha256:1"}, err
}

func (r *registry) Check(context.Context) (string, error) { return "2.0", nil }

// away is a store that does not answer.
type away struct{ registry }

func (a *away) Check(context.Context) (string, error) {
	return "", errors.New("there is no containerd at /run/x")
}

// TestAbsent: if nothing runs images, one that is not mapped is refused with advice about
// config.yaml, once containerd has had time to start. A store that has answered is waited for.
func TestAbsent(t *testing.T) {
	s := New(&away{}, "", configuration.Images{"tf": {Environment: "/opt/tf"}})
	now := time.Now()
	s.now = func() time.Time { return now }
	_, err := s.store.Check(t.Context())
	s.noteAbsent(err)
	if err := s.Check("box"); err != nil {
		t.Errorf("at the start: %v", err)
	}
	now = now.Add(grace)
	s.noteAbsent(err)
	refused := s.Check("box")
	if refused == nil || !strings.Contains(refused.Error(), "no containerd at /run/x") || !strings.Contains(refused.Error(), `images: {"box": host}`) {
		t.Fatalf("%v", refused)
	}
	if is := s.Ensure("box", time.Time{}); !is.Failed || is.Message != refused.Error() {
		t.Errorf("%+v", is)
	}
	if err := s.Check("tf"); err != nil {
		t.Errorf("one that stands for an environment: %v", err)
	}
	s.noteAbsent(nil)
	if err := s.Check("box"); err != nil {
		t.Errorf("once it answers: %v", err)
	}
}

func TestImages(t *testing.T) {
	r := &registry{gate: make(chan struct{})}
	s := New(r, "", configuration.Images{"tf": {Environment: "/opt/tf"}, "plain": {Environment: "host"}})
	now := time.Now()
	s.now = func() time.Time { return now }
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer group.Wait()
	defer cancel()
	if got := s.Ensure("tf", time.Time{}); !got.Host || got.Path != "/opt/tf" {
		t.Errorf("%+v", got)
	}
	if got := s.Ensure("plain", time.Time{}); !got.Host || got.Path != "" {
		t.Errorf("%+v", got)
	}
	if got := s.Ensure("box", time.Time{}); got.Digest != "" || !strings.Contains(got.Message, "is being fetched") {
		t.Errorf("while it is pulled: %+v", got)
	}
	close(r.gate)
	<-s.known["box"].done
	if got := s.Ensure("box", time.Time{}); got.Digest != "sha256:1" || r.asked != 1 {
		t.Errorf("%+v after %d", got, r.asked)
	}
	if got := s.Ensure("box", now.Add(time.Second)); got.Digest != "sha256:1" || r.asked != 1 {
		t.Errorf("since a moment that is still to come: %+v after %d", got, r.asked)
	}
	now = now.Add(time.Second)
	r.mu.Lock()
	r.gate = make(chan struct{})
	r.mu.Unlock()
	if got := s.Ensure("box", now); got.Digest != "" {
		t.Errorf("while it is looked at again: %+v", got)
	}
	if got := s.Ensure("box", now.Add(-time.Second)); got.Digest != "sha256:1" {
		t.Errorf("since before it was looked at first, while it is looked at again: %+v", got)
	}
	close(r.gate)
	<-s.known["box"].done
	for range 2 { // it was looked at before, then since
		if got := s.Ensure("box", now); got.Digest != "sha256:1" || r.asked != 2 {
			t.Errorf("%+v after %d", got, r.asked)
		}
	}
	now = now.Add(time.Minute) // its tag may stand for something else by now
	r.mu.Lock()
	r.err = &image.Fault{Reason: image.InvalidName, Err: errors.New("no name")}
	r.mu.Unlock()
	if got := s.Ensure("box", time.Time{}); !got.Failed || got.Message != "no name" || r.asked != 3 {
		t.Errorf("%+v after %d", got, r.asked)
	}
}

func TestNoImages(t *testing.T) {
	s := New(nil, "images can be run by root alone", configuration.Images{"tf": {Environment: "/opt/tf"}})
	if err := s.Check("tf"); err != nil {
		t.Error(err)
	}
	if err := s.Check("box"); err == nil || s.Ensure("box", time.Time{}).Message != err.Error() {
		t.Errorf("%v, %+v", err, s.Ensure("box", time.Time{}))
	}
}
