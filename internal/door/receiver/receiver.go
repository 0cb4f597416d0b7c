package receiver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/tenant"
)

const (
	// allowed and denied are the times for which the answers of the API server are kept.
	allowed, denied = time.Minute, 10 * time.Second
	// remembered is how many of them are kept.
	remembered = 4096
	// patience is the time limit of one question.
	patience = 10 * time.Second
	// authenticated is the group that the API server adds to every user.
	authenticated = "system:authenticated"
)

// Options are what a [Receiver] needs.
type Options struct {
	// API is asked which rights a user has in a namespace of others. Required.
	API client.Client
	// Directory tells the groups of users. Required.
	Directory frontproxy.Directory
	// Administrators are Unix groups whose members see the names of all users, as root does.
	Administrators []string
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Receiver finds out who calls.
type Receiver struct {
	o Options

	mu    sync.Mutex
	known map[question]answer
}

// question is whether a user may speak for a namespace.
type question struct{ user, groups, namespace string }

type answer struct {
	may   bool
	until time.Time
}

// New returns a receiver.
func New(o Options) *Receiver {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Receiver{o: o, known: map[question]answer{}}
}

// Receive is for [door.Options]. The caller speaks for the namespace in the path of the
// request; where the path has none, for their own.
func (r *Receiver) Receive(req *http.Request) (door.Caller, error) {
	req.Header.Del(v1alpha1.DoorHeader) // no token counts here
	from, err := peer.FromContext(req.Context())
	if err != nil {
		return door.Caller{}, &door.Refusal{Status: http.StatusForbidden, Text: err.Error()}
	}
	who, err := frontproxy.Identify(req.Context(), r.o.Directory, from)
	if err != nil {
		return door.Caller{}, err
	}
	own := tenant.OfMachine(from.UID, "").Name
	caller := door.Caller{Namespace: own, User: who.User, Groups: append(who.Groups, authenticated), Issued: r.o.Now(), Login: who.Login, Administrator: r.administrates(from.UID, who.Groups)}
	asked := req.PathValue("namespace")
	if asked == "" || asked == own {
		return caller, nil
	}
	may, err := r.may(req.Context(), caller, asked)
	if err != nil {
		return door.Caller{}, err
	}
	if !may {
		return door.Caller{}, &door.Refusal{Status: http.StatusForbidden, Text: fmt.Sprintf(
			"%s may not speak for namespace %s: its own is %s; an administrator of the machine may give the right to create tokens of service account %s there",
			who.User, asked, own, v1alpha1.DoorAccount)}
	}
	caller.Namespace = asked
	return caller, nil
}

// administrates reports whether a user is root, or in a group of administrators.
func (r *Receiver) administrates(uid uint32, groups []string) bool {
	return uid == 0 || slices.ContainsFunc(r.o.Administrators, func(group string) bool {
		return slices.Contains(groups, frontproxy.GroupPrefix+group)
	})
}

// Administrator reports whether the caller of a request is root, or in a group of administrators.
func (r *Receiver) Administrator(req *http.Request) (bool, error) {
	from, err := peer.FromContext(req.Context())
	if err != nil {
		return false, err
	}
	who, err := frontproxy.Identify(req.Context(), r.o.Directory, from)
	if err != nil {
		return false, err
	}
	return r.administrates(from.UID, who.Groups), nil
}

// may reports whether a caller may speak for a namespace that is not their own.
func (r *Receiver) may(ctx context.Context, caller door.Caller, namespace string) (bool, error) {
	q, now := question{caller.User, strings.Join(caller.Groups, "\n"), namespace}, r.o.Now()
	r.mu.Lock()
	a, known := r.known[q]
	r.mu.Unlock()
	if known && now.Before(a.until) {
		return a.may, nil
	}
	may, err := r.ask(ctx, caller, namespace)
	if err != nil {
		return false, err
	}
	a = answer{may: may, until: now.Add(denied)}
	if may {
		a.until = now.Add(allowed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= remembered {
		clear(r.known)
	}
	r.known[q] = a
	return may, nil
}

func (r *Receiver) ask(ctx context.Context, caller door.Caller, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: caller.User, Groups: caller.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: v1alpha1.DoorAccount,
		},
	}}
	if err := r.o.API.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking the API server for the rights of %s in namespace %s: %w", caller.User, namespace, err)
	}
	return review.Status.Allowed, nil
}
