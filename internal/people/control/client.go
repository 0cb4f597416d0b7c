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
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Client asks a server at a Unix socket.
type Client struct{ http *http.Client }

// NewClient returns a client of the server at a path.
func NewClient(path string) *Client {
	return &Client{&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, path) }}}}
}

// Link returns a link to the console, at a local port of a tunnel or, for 0, at its own address.
func (c *Client) Link(ctx context.Context, port int) (Link, error) {
	var link Link
	return link, c.do(ctx, http.MethodPost, "/v1/links", LinkRequest{Port: port}, &link)
}

// List returns the caller's sessions and tokens, oldest first.
func (c *Client) List(ctx context.Context) ([]session.Entry, error) {
	var list []session.Entry
	return list, c.do(ctx, http.MethodGet, "/v1/entries", nil, &list)
}

// Revoke ends a session or token of the caller. The error is [session.ErrUnknown] if there is none with this ID.
func (c *Client) Revoke(ctx context.Context, id string) error {
	err := c.do(ctx, http.MethodDelete, "/v1/entries/"+url.PathEscape(id), nil, &struct{}{})
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Status == http.StatusNotFound {
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
	r, err := http.NewRequestWithContext(ctx, method, "http://muster"+path, bytes.NewReader(text))
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
		return &RefusedError{Status: answer.StatusCode, Message: strings.TrimSpace(string(text))}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the answer of Muster: %w", err)
	}
	return nil
}
