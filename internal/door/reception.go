package door

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/turns"
)

// Caller is who asks.
type Caller struct {
	// Namespace is the one that it speaks for. Empty: none.
	Namespace string
	// Node is the node whose agent it is. Empty: none's.
	Node string
	// User is who asked the API server for the token, of those who may speak for
	// the namespace. Empty: the token does not say.
	User string
	// Groups are those that the user is in, of which the token says so, and Issued is
	// since when it says all that.
	Groups []string
	Issued time.Time
	// Login is the user's on the machine. Empty: it is none of the machine, or not known.
	Login string
	// Administrator is true for a user who sees the names of all.
	Administrator bool
}

const (
	// nodeExtra is what the API server says of a token that is bound to a pod:
	// on which node that is.
	nodeExtra = "authentication.kubernetes.io/node-name"

	tokenBytes = 32 << 10
	// trust is for how long a token that was reviewed is not reviewed again, and
	// distrust is that of one that was refused.
	trust, distrust = time.Minute, 10 * time.Second
	// remembered is how many reviews are remembered.
	remembered = 4096
	// reviewed is how many tokens are reviewed at once, and unknown how many
	// requests wait for that: agents of all nodes may come at the same moment, and
	// until then all of them are nobody.
	reviewed, unknown = 8, 1024
)

// reception finds out who asks.
type reception struct {
	api       client.Client
	namespace string
	now       func() time.Time
	reviews   *turns.Lane

	mu    sync.Mutex
	known map[[sha256.Size]byte]verdict
}

// verdict is what a review said. The token itself is not kept.
type verdict struct {
	caller Caller
	err    error
	until  time.Time
}

func newReception(o Options) *reception {
	return &reception{
		api: o.API, namespace: o.Namespace, now: o.Now, reviews: turns.New(reviewed, unknown, o.Now),
		known: map[[sha256.Size]byte]verdict{},
	}
}

// receive finds out who sent a request.
func (r *reception) receive(req *http.Request) (Caller, error) {
	tokens := req.Header.Values(v1alpha1.DoorHeader)
	// Whoever handles the request from here on has no use for it.
	req.Header.Del(v1alpha1.DoorHeader)
	if len(tokens) != 1 || tokens[0] == "" || len(tokens[0]) > tokenBytes {
		return Caller{}, refuse(http.StatusUnauthorized, "the header %s is missing: it holds a token of a service account for the audience %q",
			v1alpha1.DoorHeader, v1alpha1.DoorAudience)
	}
	id, now := sha256.Sum256([]byte(tokens[0])), r.now()
	r.mu.Lock()
	v, known := r.known[id]
	r.mu.Unlock()
	if known && now.Before(v.until) {
		return v.caller, v.err
	}
	v, err := r.review(req.Context(), tokens[0])
	if err != nil {
		return Caller{}, err
	}
	v.until = now.Add(trust)
	if v.err != nil {
		v.until = now.Add(distrust)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= remembered {
		clear(r.known)
	}
	r.known[id] = v
	return v.caller, v.err
}

// review asks the API server. The error is that it could not be asked.
func (r *reception) review(ctx context.Context, token string) (verdict, error) {
	turn, err := r.reviews.In(ctx, "", "")
	if err != nil {
		return verdict{}, err
	}
	defer turn.Out()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{v1alpha1.DoorAudience}}}
	if err := r.api.Create(ctx, review); err != nil {
		return verdict{}, fmt.Errorf("asking the API server who this is: %w", err)
	}
	v := judge(&review.Status, r.namespace)
	if v.caller.Namespace != "" {
		c := claimsIn(token)
		v.caller.User, v.caller.Groups, v.caller.Issued = c.user, c.groups, c.issued
	}
	return v, nil
}

// claims are what a token says of who asked for it, by its audiences, which a policy
// keeps true.
type claims struct {
	user   string
	groups []string
	issued time.Time
}

// claimsIn are those of a token that was reviewed. The user is empty where it does not
// say, or names several.
func claimsIn(token string) claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var said struct {
		Audiences []string `json:"aud"`
		Issued    int64    `json:"iat"`
	}
	if err != nil || json.Unmarshal(text, &said) != nil {
		return claims{}
	}
	out := claims{issued: time.Unix(said.Issued, 0)}
	for _, audience := range said.Audiences {
		if group, is := strings.CutPrefix(audience, v1alpha1.DoorGroup); is {
			out.groups = append(out.groups, group)
		}
		name, is := strings.CutPrefix(audience, v1alpha1.DoorUser)
		if is && out.user != "" {
			return claims{}
		}
		if is {
			out.user = name
		}
	}
	return out
}

// judge says who a reviewed token belongs to. A server that knows no audiences
// leaves them out: then it did not look at them.
func judge(status *authenticationv1.TokenReviewStatus, system string) verdict {
	if !status.Authenticated || !slices.Contains(status.Audiences, v1alpha1.DoorAudience) {
		return verdict{err: refuse(http.StatusUnauthorized, "the token is not one for the audience %q, or has ended: ask for a new one", v1alpha1.DoorAudience)}
	}
	account, is := strings.CutPrefix(status.User.Username, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	switch {
	case is && name == v1alpha1.DoorAccount:
		return verdict{caller: Caller{Namespace: namespace}}
	case is && name == v1alpha1.NodeAccount && namespace == system:
		if on := status.User.Extra[nodeExtra]; len(on) == 1 && on[0] != "" {
			return verdict{caller: Caller{Node: on[0]}}
		}
		return verdict{err: refuse(http.StatusForbidden, "the token of %s is not bound to a pod on a node: give the pod a projected token", account)}
	}
	return verdict{err: refuse(http.StatusForbidden, "%s may not use the door: a token of service account %s of a namespace speaks for that namespace",
		status.User.Username, v1alpha1.DoorAccount)}
}

// party is for whom a caller asks: the agents of all nodes may act for one
// namespace.
func (c Caller) party(r *http.Request) string {
	if c.Namespace != "" {
		return c.Namespace
	}
	return r.PathValue("namespace")
}

// line is whose requests are counted together: those of a node for one namespace are
// apart from those for another, whose pods may make many and take little of what comes.
func (c Caller) line(r *http.Request) string { return c.Namespace + "/" + c.Node + "/" + c.party(r) }

// speaksFor refuses callers that do not speak for a namespace.
func (c Caller) speaksFor(namespace string) error {
	switch {
	case c.Namespace == namespace && namespace != "":
		return nil
	case c.Node != "":
		return refuse(http.StatusForbidden, "the agent of node %s speaks for no namespace", c.Node)
	}
	return refuse(http.StatusForbidden, "this token speaks for namespace %s, and not for %s", c.Namespace, namespace)
}
