package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// errOver says that the work is over.
var errOver = errors.New("the work is over")

// client asks the foreman.
type client struct {
	folder string // of the foreman
	work   string
	token  string
	http   *http.Client
	say    func(format string, args ...any)
}

// newClient finds the foreman of a work's folder.
func newClient(folder string, say func(string, ...any)) (*client, error) {
	text, err := os.ReadFile(filepath.Join(folder, shift.TokenFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errOver
	}
	if err != nil {
		return nil, fmt.Errorf("reading the token of the work: %w", err)
	}
	c := &client{folder: filepath.Dir(filepath.Dir(folder)), work: filepath.Base(folder), token: string(text), say: say}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial, MaxIdleConnsPerHost: 4}}
	return c, nil
}

// dial opens the foreman's socket by a name that is short however deep it lies.
func (c *client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	folder, err := os.Open(c.folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), shift.SocketFile))
}

// The pauses between two tries to reach the foreman.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// ask says something to the foreman until there is an answer.
func (c *client) ask(ctx context.Context, r shift.Request) (shift.Answer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return shift.Answer{}, fmt.Errorf("writing a request: %w", err)
	}
	for pause, told := firstPause, false; ; pause = min(2*pause, lastPause) {
		a, err := c.once(ctx, body)
		if err == nil || errors.Is(err, errRefused) {
			return a, err
		}
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if _, gone := os.Stat(filepath.Join(c.folder, "work", c.work, shift.TokenFile)); errors.Is(gone, os.ErrNotExist) {
			return a, errOver
		}
		if !told && pause == lastPause {
			told = true
			c.say("the foreman does not answer (%v): waiting for it", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, ctx.Err()
		}
	}
}

// errRefused is wrapped where asking again is of no use.
var errRefused = errors.New("the foreman refuses")

func (c *client) once(ctx context.Context, body []byte) (a shift.Answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://foreman"+shift.Path+c.work, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		said := strings.TrimSpace(string(text))
		if response.StatusCode/100 == 4 {
			return a, fmt.Errorf("%w: %s", errRefused, said)
		}
		return a, errors.New(said)
	}
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return a, fmt.Errorf("reading the foreman's answer: %w", err)
	}
	return a, nil
}
