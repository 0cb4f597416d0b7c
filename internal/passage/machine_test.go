package passage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/session"
)

// users are accounts of a machine. One is gone, and for one the directory gives no answer.
type users struct{}

func (users) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	if uid == 41009 {
		return account.Account{}, false, account.ErrAway
	}
	return account.Account{UID: uid}, uid != 41008, nil
}

// TestMachine: each user's requests come as that user, whatever they name, also at once and by kept
// connections. Users whom the machine no longer has, and others than users of it, get no way.
func TestMachine(t *testing.T) {
	inside := peer.NewInside()
	server := &http.Server{ConnContext: peer.Context, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := peer.FromContext(r.Context())
		_, _ = fmt.Fprint(w, who.UID, " ", who.Session, " ", err)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(inside)
	}()
	m := NewMachine(MachineOptions{Dial: inside.Dial, Accounts: users{}, Namespace: func(uid uint32) string { return fmt.Sprint("u-", uid) }})
	t.Cleanup(func() {
		m.Close()
		_ = server.Close()
		<-done
	})
	ask := func(uid uint32, url string) error {
		way, err := m.Of(t.Context(), control.CallerOf(uid))
		if err != nil || way.Namespace != fmt.Sprint("u-", uid) {
			return fmt.Errorf("namespace %s: %w", way.Namespace, err)
		}
		if url == "" {
			url = way.Server.String()
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := way.Transport.RoundTrip(r)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		if want := fmt.Sprint(uid, " true <nil>"); errors.Join(err, answer.Body.Close()) != nil || string(text) != want {
			return fmt.Errorf("got %q, want %q: %w", text, want, err)
		}
		return nil
	}
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			url := ""
			if i%2 == 1 { // another user's host
				url = fmt.Sprintf("https://%d/api", 41000+(i+1)%3)
			}
			if err := ask(uint32(41000+i%3), url); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := ask(0, ""); err != nil {
		t.Error(err)
	}
	if err := ask(41009, ""); err != nil { // the server decides
		t.Error(err)
	}
	for user, says := range map[string]string{"unix:41008": "no user of this machine any more", "unix:": "no credential", "ada": "no credential", "muster:manager": "no credential", "unix:01": "no credential"} {
		if way, err := m.Of(t.Context(), session.Caller{User: user}); err == nil || way.Transport != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// TestMachineStopped: after the end of the server requests fail.
func TestMachineStopped(t *testing.T) {
	inside := peer.NewInside()
	if err := inside.Close(); err != nil {
		t.Fatal(err)
	}
	m := NewMachine(MachineOptions{Dial: inside.Dial, Accounts: users{}, Namespace: func(uint32) string { return "" }})
	way, err := m.Of(t.Context(), control.CallerOf(41001))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, way.Server.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := way.Transport.RoundTrip(r); !errors.Is(err, net.ErrClosed) {
		_ = answer.Body.Close()
		t.Error(err)
	}
}
