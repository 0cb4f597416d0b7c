package inline

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A volume is taken away only once it was given, and who gave up waiting does
// nothing; other volumes do not wait.
func TestRequestsAboutAVolumeTakeTurns(t *testing.T) {
	turns := newTurns()
	var mu sync.Mutex
	var said []string
	say := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, what)
	}
	began, end := make(chan struct{}), make(chan struct{})
	publish := &csi.NodePublishVolumeRequest{VolumeId: "a"}
	unpublish := &csi.NodeUnpublishVolumeRequest{VolumeId: "a"}
	go func() {
		_, _ = turns.intercept(t.Context(), publish, nil, func(context.Context, any) (any, error) {
			close(began)
			<-end
			say("published")
			return nil, nil
		})
	}()
	<-began
	done := make(chan error)
	handler := func(what string) grpc.UnaryHandler {
		return func(context.Context, any) (any, error) {
			say(what)
			return nil, nil
		}
	}
	go func() {
		_, err := turns.intercept(t.Context(), unpublish, nil, handler("unpublished"))
		done <- err
	}()
	for _, other := range []any{&csi.NodePublishVolumeRequest{VolumeId: "b"}, &csi.NodeGetInfoRequest{}} {
		if _, err := turns.intercept(t.Context(), other, nil, handler("another")); err != nil {
			t.Error(err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.intercept(gone, publish, nil, handler("given up")); status.Code(err) != codes.Canceled {
		t.Errorf("of one that gave up: %v", err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := []string{"another", "another", "published", "unpublished"}; !slices.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
	if len(turns.busy) != 0 {
		t.Errorf("left: %v", turns.busy)
	}
}
