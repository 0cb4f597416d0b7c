package door

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
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
	l := newLane(3, 2)
	enter := func(who string) (func(), error) { return l.in(t.Context(), who) }
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
		if _, err := l.in(gone, "bob"); !errors.Is(err, context.Canceled) {
			t.Errorf("in a full lane: %v", err)
		}
	}
	first()
	if out, err := enter("bob"); err != nil {
		t.Errorf("after one has left: %v", err)
	} else {
		out()
	}
	if out, err := enter("ada"); err != nil {
		t.Errorf("the first again: %v", err)
	} else {
		out()
	}
}
