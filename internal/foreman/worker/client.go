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
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// errOver says that the work is over.
var errOver = errors.New("the work is over")

// client asks the foreman.
type client struct {
	socket    string // the folder that it is in
	tokenFile string
	work      string
	token     string
	http      *http.Client
	say       func(format string, args ...any)
}

// newClient finds the foreman of a work.
func newClient(o *Options, say func(string, ...any)) (*client, error) {
	c := &client{socket: filepath.Dir(filepath.Dir(o.Folder)), tokenFile: filepath.Join(o.Folder, shift.TokenFile), work: filepath.Base(o.Folder), say: say}
	if o.Post != "" {
		c.socket, c.tokenFile, c.work = o.Post, filepath.Join(o.Post, shift.TokenFile), o.Work
	}
	text, err := os.ReadFile(c.tokenFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errOver
	}
	if err != nil {
		return nil, fmt.Errorf("reading the token of the work: %w", err)
	}
	c.token = string(text)
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial, MaxIdleConnsPerHost: 4}}
	return c, nil
}

// dial opens the foreman's socket by a name that is short however deep it lies.
func (c *client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	folder, err := os.Open(c.socket)
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
func (c *client) ask(ctx context.Context, r shift.Request) (a shift.Answer, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return a, fmt.Errorf("writing a request: %w", err)
	}
	err = c.insist(ctx, func() (err error) {
		a, err = c.once(ctx, body)
		return err
	})
	return a, err
}

// insist tries until there is an answer, or until trying is of no use.
func (c *client) insist(ctx context.Context, try func() error) error {
	for pause, told := firstPause, false; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, errGone) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, gone := os.Stat(c.tokenFile); errors.Is(gone, os.ErrNotExist) {
			return errOver
		}
		if !told && pause == lastPause {
			told = true
			c.say("waiting for the foreman: %v", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

var (
	// errRefused is wrapped where asking again is of no use.
	errRefused = errors.New("the foreman refuses")
	// errGone says that a datum is not this worker's any more.
	errGone = errors.New("somebody else has it")
)

// do sends a request, whose files need so many bytes of a disk. What is not answered well is an error.
func (c *client) do(ctx context.Context, method, path string, body io.Reader, size int64) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://foreman"+shift.Path+c.work+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if size > 0 {
		request.Header.Set(shift.SizeHeader, strconv.FormatInt(size, 10))
	}
	response, err := c.http.Do(request)
	if err != nil || response.StatusCode/100 == 2 {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
	said := strings.TrimSpace(string(text))
	switch {
	case response.StatusCode == shift.StatusGone:
		return nil, fmt.Errorf("%w: %s", errGone, said)
	case response.StatusCode/100 == 4:
		return nil, fmt.Errorf("%w: %s", errRefused, said)
	}
	return nil, errors.New(said)
}

func (c *client) once(ctx context.Context, body []byte) (a shift.Answer, err error) {
	response, err := c.do(ctx, http.MethodPost, "", bytes.NewReader(body), 0)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return a, fmt.Errorf("reading the foreman's answer: %w", err)
	}
	return a, nil
}
