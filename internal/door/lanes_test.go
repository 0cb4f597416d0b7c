package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment/source"
)

// Agents of many nodes come at once, and nobody knows them yet: all are served in
// the end.
func TestManyWhoAreNotKnownYet(t *testing.T) {
	const many = 5 * reviewed
	asked, answer := make(chan struct{}, many), make(chan struct{})
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked <- struct{}{}
			<-answer
			o.(*authenticationv1.TokenReview).Status = tokens["node"]
			return nil
		},
	}).Build()
	r := newReception(Options{API: api, Namespace: "muster-system", Now: time.Now})
	done := make(chan error, many)
	for i := range many {
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			if err == nil {
				request.Header.Set(v1alpha1.DoorHeader, fmt.Sprint("token-", i))
				_, err = r.receive(request)
			}
			done <- err
		}()
	}
	for range reviewed {
		<-asked // no more of them while these are not answered
	}
	close(answer)
	for range many {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Three namespaces send next to nothing in all the lanes for code. A fourth one
// comes through, and they are told why, and may come again.
func TestSlowSendersMakeRoom(t *testing.T) {
	h := open(t, true)
	rules := &h.door.lanes.up.Rules
	rules.Window, rules.Look = 50*time.Millisecond, 5*time.Millisecond
	slow, digest := make(chan *http.Response, 6), h.code("print(0)")
	for range 2 {
		for _, who := range []string{"ada", "bob", "cleo"} {
			body, rest := io.Pipe()
			t.Cleanup(func() { _ = rest.Close() })
			go func() {
				if answer, err := h.put(who, digest, body); err == nil {
					slow <- answer // the others end with the test
				}
			}()
			if _, err := rest.Write([]byte("t")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for h.door.lanes.up.Taken() < 6 {
		runtime.Gosched()
	}
	if _, err := h.as("dora").Send(t.Context(), "dora", h.mine, h.code("print(1)"), nil); err != nil {
		t.Fatal(err)
	}
	answer := <-slow
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "2" || !strings.Contains(string(text), "a second arrived where 64 KiB are wanted") {
		t.Errorf("%s %q %v", answer.Status, text, err)
	}
}

// put sends a body as it comes.
func (h *house) put(who, digest string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(h.Context(), http.MethodPut, "https://"+h.door.Address()+"/v1/namespaces/"+who+"/code/"+digest, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set(v1alpha1.DoorHeader, who)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the door makes its own certificate
	h.Cleanup(client.CloseIdleConnections)
	return client.Do(request)
}

// Who has to make room takes up where it was: what came whole is not sent again.
func TestWhoMadeRoomGoesOn(t *testing.T) {
	const files, size, ends = 16, 2 << 20, 12
	h := open(t, true)
	dir := t.TempDir()
	for i := range files {
		h.must(os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size), 0o600))
	}
	snapshot, err := h.mine.Snapshot(t.Context(), dir, source.Options{})
	h.must(err)
	up := h.door.lanes.up
	up.Wide, up.Rules.Look, up.Rules.Courtesy, up.Rules.Longest = 1, time.Millisecond, 0, 0
	var told []int64
	var bob sync.WaitGroup
	sent, err := h.as("ada").Send(t.Context(), "ada", h.mine, snapshot.Digest, func(done, _ int64) {
		if told = append(told, done); len(told) != ends {
			return
		}
		bob.Go(func() {
			turn, err := up.In(t.Context(), "bob", "bob") // ada has to make room
			if err != nil {
				t.Error(err)
				return
			}
			turn.Out()
		})
	})
	h.must(err)
	bob.Wait()
	h.must(h.as("ada").Fetch(t.Context(), "ada", snapshot.Digest, filepath.Join(t.TempDir(), "code")))
	// More than was to be told: the rest began anew, behind what was kept.
	again := slices.IndexFunc(told[1:], func(done int64) bool { return done <= size })
	if len(told) <= files || again >= 0 || told[len(told)-1] != files*size || sent.Contents != files || sent.Bytes != files*size {
		t.Errorf("%+v, told step by step: %v", sent, told)
	}
}
