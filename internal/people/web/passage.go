package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/muster-dev/muster/internal/people/session"
)

// Passage returns the way of a caller to the Kubernetes API. It never returns a way with the rights of
// the server: a caller without a credential gets an error.
type Passage interface {
	Of(ctx context.Context, caller session.Caller) (Way, error)
}

// Way is a way to the API with a caller's credential.
type Way struct {
	// Server is the address of the API server.
	Server *url.URL
	// Transport adds the credential.
	Transport http.RoundTripper
	// Namespace is the caller's own; empty if the way has none.
	Namespace string
	// ReadOnly says why a write by this way is refused, and which command to type instead; empty if
	// writes are possible.
	ReadOnly string
}

// Identity is a caller as the API server knows them.
type Identity struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
}

// Answers reads answers for pages, by the way of a caller. An error of the type [*Problem] says which
// status the page gets.
type Answers interface {
	// Review asks the API server who the caller is.
	Review(ctx context.Context, way Way) (Identity, error)
	// GPUs returns the nodes with their GPUs, as `muster top -o json` prints them.
	GPUs(ctx context.Context, way Way) (any, error)
}

// Problem is an error with a status of HTTP.
type Problem struct {
	Status int
	Err    error
}

// Error implements error.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the error itself.
func (p *Problem) Unwrap() error { return p.Err }
