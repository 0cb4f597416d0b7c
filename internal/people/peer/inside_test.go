package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestInside: a request inside the process has the user of its connection, as a session without groups.
func TestInside(t *testing.T) {
	l := NewInside()
	server := &http.Server{ConnContext: Context, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := FromContext(r.Context())
		_, _ = fmt.Fprint(w, who.UID, who.Session, who.GIDs(), err)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	for _, uid := range []uint32{0, 41001} {
		c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx, uid) }}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://muster/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if want := fmt.Sprint(uid, true, []uint32(nil), error(nil)); errors.Join(err, answer.Body.Close()) != nil || string(text) != want {
			t.Errorf("%s (%v), want %s", text, err, want)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-done
	if _, err := l.Dial(t.Context(), 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewInside().Dial(waiting, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody accepts: %v", err)
	}
}

// TestGIDs: the groups of a process, and none of a session.
func TestGIDs(t *testing.T) {
	p := Peer{UID: 5, GID: 7, Groups: []uint32{8, 9}}
	if got := p.GIDs(); !slices.Equal(got, []uint32{7, 8, 9}) {
		t.Error(got)
	}
	if p.Session = true; p.GIDs() != nil {
		t.Error(p.GIDs())
	}
}
