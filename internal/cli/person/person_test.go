package person

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestAuthor: on a cluster the API server names the user; elsewhere the machine does.
func TestAuthor(t *testing.T) {
	for name, c := range map[string]struct {
		known string
		fails bool
		want  string
	}{
		"a user of a cluster":        {known: "ada@example.com", want: "ada@example.com"},
		"an embedded Muster":         {known: everybody, want: Name()},
		"a server that is not there": {fails: true, want: Name()},
	} {
		t.Run(name, func(t *testing.T) {
			server := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					object.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username = c.known
					return nil
				},
			})
			got := Author(t.Context(), func() (client.WithWatch, error) {
				if c.fails {
					return nil, errors.New("nobody answers")
				}
				return server, nil
			})
			if got != c.want {
				t.Errorf("the author is %q, want %q", got, c.want)
			}
		})
	}
}
