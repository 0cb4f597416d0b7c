package passage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/people/signin"
	"github.com/muster-dev/muster/internal/people/web"
)

const (
	reviewPath = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	// patience bounds one question to the API server.
	patience = 10 * time.Second
	// answerBytes bounds an answer.
	answerBytes = 1 << 20
)

// errUnknown means that the API server does not know the credential.
var errUnknown = errors.New("the API server does not know this credential")

// door sends requests to one API server, and to no other host: a redirect takes no credential along.
type door struct {
	server *url.URL
	inner  http.RoundTripper
	// change adds the credential to a copy of a request.
	change func(http.Header)
}

// RoundTrip implements [http.RoundTripper].
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != d.server.Scheme || r.URL.Host != d.server.Host {
		return nil, fmt.Errorf("a request to %.100s: this credential is for %s alone", r.URL.Host, d.server.Host)
	}
	r = r.Clone(r.Context())
	for name := range r.Header {
		if lower := strings.ToLower(name); lower == "authorization" || strings.HasPrefix(lower, "impersonate-") || strings.HasPrefix(lower, "x-remote-") {
			delete(r.Header, name)
		}
	}
	if d.change != nil {
		d.change(r.Header)
	}
	return d.inner.RoundTrip(r)
}

// bearer returns a transport with the token of a caller.
func (c *Cluster) bearer(token signin.Token) *door {
	return &door{server: c.server, inner: c.nobody, change: func(h http.Header) { h.Set("Authorization", "Bearer "+token.Raw) }}
}

// own returns a transport with the manager's credential.
func (c *Cluster) own() *door { return &door{server: c.server, inner: c.manager} }

// whoami asks the API server for the user of a transport.
func (d *door) whoami(ctx context.Context) (web.Identity, error) {
	var review authenticationv1.SelfSubjectReview
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}
	status, err := d.create(ctx, reviewPath, &review)
	switch {
	case err != nil:
		return web.Identity{}, err
	case status == http.StatusUnauthorized:
		return web.Identity{}, errUnknown
	case status == http.StatusForbidden:
		return web.Identity{}, fmt.Errorf("%w: it may not ask who it is", errForbidden)
	case status != http.StatusCreated || review.Status.UserInfo.Username == "":
		return web.Identity{}, &web.Problem{Status: http.StatusServiceUnavailable, Err: fmt.Errorf("the API server does not say who you are (status %d): try again in a moment", status)}
	}
	return web.Identity{User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}, nil
}

var errForbidden = errors.New("the API server refuses this credential")

// create creates an object that the API server answers at once, such as a review, and reads the answer.
func (d *door) create(ctx context.Context, path string, object any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(object)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.server.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	answer, err := d.RoundTrip(r)
	if err != nil {
		return 0, &web.Problem{Status: http.StatusServiceUnavailable, Err: fmt.Errorf("the API server does not answer: %w", err)}
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytes))
	if err != nil || answer.StatusCode != http.StatusCreated {
		return answer.StatusCode, err
	}
	return answer.StatusCode, json.Unmarshal(text, object)
}
