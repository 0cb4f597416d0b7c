package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/session"
)

// answerBytes bounds an answer.
const answerBytes = 4 << 20

// RefusedError is a refusal of the server.
type RefusedError struct {
	Status  int
	Message string
	// socket says that the socket of the machine refused, and not the console behind it.
	socket bool
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Client asks a server at a Unix socket.
type Client struct {
	http   *http.Client
	prefix string
}

// NewClient returns a client of the server at a socket. The paths of the server lie below a prefix, which
// may be empty.
func NewClient(socket, prefix string) *Client {
	return &Client{prefix: prefix, http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, socket) }}}}
}

// Link returns a link to the console, at a local port of a tunnel or, for 0, at its own address.
func (c *Client) Link(ctx context.Context, port int) (Link, error) {
	var link Link
	return link, c.do(ctx, http.MethodPost, "/v1/links", LinkRequest{Port: port}, &link)
}

// List returns the caller's sessions and tokens, oldest first, or those of all users for an
// administrator.
func (c *Client) List(ctx context.Context, all bool) ([]session.Entry, error) {
	var list []session.Entry
	path := "/v1/entries"
	if all {
		path += "?all"
	}
	return list, c.do(ctx, http.MethodGet, path, nil, &list)
}

// Revoke ends a session or token of the caller; for an administrator, of any user. The error is [session.ErrUnknown] if there is none with this ID.
func (c *Client) Revoke(ctx context.Context, id string) error {
	err := c.do(ctx, http.MethodDelete, "/v1/entries/"+url.PathEscape(id), nil, &struct{}{})
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Status == http.StatusNotFound && !refused.socket {
		return session.ErrUnknown
	}
	return err
}

// CreateToken returns a new token of the caller.
func (c *Client) CreateToken(ctx context.Context, asked TokenRequest) (Token, error) {
	var token Token
	return token, c.do(ctx, http.MethodPost, "/v1/tokens", asked, &token)
}

func (c *Client) do(ctx context.Context, method, path string, body, into any) (err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://muster"+c.prefix+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(answer.Body, answerBytes)); err != nil {
		return fmt.Errorf("reading the answer of Muster: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return refusal(answer, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the answer of Muster: %w", err)
	}
	return nil
}

// refusal reads a refusal of the console, which is text, or of the machine's socket.
func refusal(answer *http.Response, text []byte) *RefusedError {
	refused := &RefusedError{Status: answer.StatusCode, Message: strings.TrimSpace(string(text)), socket: answer.Header.Get(peer.RefusalHeader) != ""}
	var status struct{ Message string }
	if refused.socket && json.Unmarshal(text, &status) == nil && status.Message != "" {
		refused.Message = status.Message
	}
	return refused
}
