package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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

func TestNobodyKeepsAllOthersOut(t *testing.T) {
	l := newLane(3, 2, time.Now)
	enter := func(who string) (*turn, error) { return l.in(t.Context(), who, who) }
	first, err := enter("ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enter("ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := enter("ada"); refusalOf(err).Status != 429 || refusalOf(err).RetryAfter == 0 {
		t.Errorf("a third one of the same: %v", err)
	}
	if _, err := enter("bob"); err != nil {
		t.Errorf("another: %v", err)
	}
	// Full: who gives up waiting is not counted.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if _, err := l.in(gone, "bob", "bob"); !errors.Is(err, context.Canceled) {
			t.Errorf("in a full lane: %v", err)
		}
	}
	first.out()
	for _, who := range []string{"bob", "ada"} {
		turn, err := enter(who)
		if err != nil {
			t.Fatalf("%s, after one has left: %v", who, err)
		}
		turn.out()
	}
}

// Whose turn ends for somebody who waits, and when.
func TestWhoMakesRoom(t *testing.T) {
	slow := pace{waited: standing.window, moved: standing.slowest * 2}
	steady := pace{waited: standing.window, moved: standing.slowest * 100}
	stalled := pace{since: time.Unix(1000, 0).Add(-standing.window)}
	fresh := pace{since: time.Unix(1000, 0).Add(-standing.window / 2)}
	held := func(party string, p pace, ago time.Duration) *turn {
		return &turn{who: party, party: party, pace: p, began: time.Unix(1000, 0).Add(-ago)}
	}
	for name, c := range map[string]struct {
		turns  []*turn
		waits  string
		waited time.Duration
		final  bool // little can be taken up again
		want   int  // -1: nobody
		says   string
	}{
		"all keep to the pace, and have their part": {turns: []*turn{held("a", steady, 0), held("b", steady, 0)}, waits: "c", waited: standing.courtesy, want: -1},
		"one is slow":                          {turns: []*turn{held("a", steady, 0), held("b", slow, 0)}, waits: "c", want: 1, says: "only 16 KiB a second"},
		"one has stalled":                      {turns: []*turn{held("a", steady, 0), held("b", stalled, 0)}, waits: "c", want: 1, says: "only 0 B a second"},
		"one is slow that cannot resume":       {turns: []*turn{held("a", stalled, 0)}, waits: "c", final: true, want: 0, says: "only 0 B"},
		"one has not been there for long":      {turns: []*turn{held("a", fresh, 0)}, waits: "c", want: -1},
		"one's own is slow":                    {turns: []*turn{held("a", stalled, 0)}, waits: "a", waited: time.Hour, want: -1},
		"one has more than its part":           {turns: []*turn{held("a", steady, 3), held("b", steady, 2), held("b", steady, 1)}, waits: "c", waited: standing.courtesy, want: 2, says: "2 requests of namespace b"},
		"of two with more the one with most":   {turns: []*turn{held("a", steady, 3), held("a", steady, 2), held("a", steady, 1), held("b", steady, 1), held("b", steady, 1)}, waits: "c", waited: standing.courtesy, want: 2, says: "3 requests of namespace a"},
		"more, but a moment has to be waited":  {turns: []*turn{held("b", steady, 2), held("b", steady, 1)}, waits: "c", want: -1},
		"more, but it would be lost":           {turns: []*turn{held("b", steady, 2), held("b", steady, 1)}, waits: "c", waited: standing.courtesy, final: true, want: -1},
		"who has as many as will be left":      {turns: []*turn{held("b", steady, 2), held("b", steady, 1), held("c", steady, 1)}, waits: "c", waited: standing.courtesy, want: -1},
		"one has been at it for very long":     {turns: []*turn{held("a", steady, standing.longest+1), held("b", steady, 0)}, waits: "c", waited: standing.courtesy, want: 0, says: "10m0s"},
		"very long, but who waits has one too": {turns: []*turn{held("a", steady, standing.longest+1), held("c", steady, 0)}, waits: "c", waited: standing.courtesy, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			l := newLane(len(c.turns), 3, func() time.Time { return now })
			l.resumes, l.turns = !c.final, c.turns
			for _, turn := range c.turns {
				turn.lane = l
			}
			got, why := l.loser(&waiter{turn: &turn{who: c.waits, party: c.waits}, since: now.Add(-c.waited)}, now)
			switch {
			case c.want < 0 && got != nil:
				t.Errorf("it ends for one of %s: %v", got.party, why)
			case c.want >= 0 && (got != c.turns[c.want] || why.Status != http.StatusTooManyRequests || why.RetryAfter == 0 || !strings.Contains(why.Text, c.says)):
				t.Errorf("%+v: %v", got, why)
			}
		})
	}
}

// Turns that become free go to those who have the fewest.
func TestWhoComesNext(t *testing.T) {
	l := newLane(2, 9, time.Now)
	var turns []*turn
	for range 2 {
		turn, err := l.in(t.Context(), "ada", "ada")
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
	}
	came := make(chan string, 2)
	for i, who := range []string{"ada", "bob"} {
		go func() {
			turn, err := l.in(t.Context(), who, who)
			came <- fmt.Sprint(who, err)
			if err == nil {
				turn.out()
			}
		}()
		for lined := 0; lined <= i; { // it tells nobody that it stands in line
			l.mu.Lock()
			lined = len(l.line)
			l.mu.Unlock()
			runtime.Gosched()
		}
	}
	turns[0].out()
	if first, second := <-came, <-came; first != "bob<nil>" || second != "ada<nil>" {
		t.Errorf("%s came before %s", first, second)
	}
}

// Three namespaces send next to nothing in all the lanes for code. A fourth one
// comes through, and they are told why, and may come again.
func TestSlowSendersMakeRoom(t *testing.T) {
	h := open(t, true)
	quick := standing
	quick.window, quick.look = 50*time.Millisecond, 5*time.Millisecond
	h.door.lanes.up.rules = quick
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
	for taken := 0; taken < 6; runtime.Gosched() {
		h.door.lanes.up.mu.Lock()
		taken = len(h.door.lanes.up.turns)
		h.door.lanes.up.mu.Unlock()
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
	var told []int64
	sent, err := h.as("ada").Send(t.Context(), "ada", h.mine, snapshot.Digest, func(done, _ int64) {
		if told = append(told, done); len(told) != ends {
			return
		}
		up := h.door.lanes.up
		up.mu.Lock()
		defer up.mu.Unlock()
		for _, turn := range up.turns {
			turn.lose(&Refusal{Status: http.StatusTooManyRequests, Text: "others wait", RetryAfter: time.Second})
		}
	})
	h.must(err)
	h.must(h.as("ada").Fetch(t.Context(), "ada", snapshot.Digest, filepath.Join(t.TempDir(), "code")))
	// More than was to be told: the rest began anew, behind what was kept.
	again := slices.IndexFunc(told[1:], func(done int64) bool { return done <= size })
	if len(told) <= files || again >= 0 || told[len(told)-1] != files*size || sent.Contents != files || sent.Bytes != files*size {
		t.Errorf("%+v, told step by step: %v", sent, told)
	}
}
