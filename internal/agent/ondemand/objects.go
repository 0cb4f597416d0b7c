//go:build linux

package ondemand

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// objects are the packs and commits of the pod's namespace, as the agent at a desk reads
// them.
func objects(desk string) *backend.Remote {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(desk, ObjectsSocket))
		},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		ResponseHeaderTimeout: time.Minute,
	}}
	return backend.NewRemote(func(ctx context.Context, q backend.Question) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, q.Method, "http://agent"+ObjectsPath+q.Key, nil)
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", q.Key, err)
		}
		if q.Range != "" {
			request.Header.Set("Range", q.Range)
		}
		answer, err := client.Do(request)
		if err != nil && ctx.Err() == nil { // that there is no socket now says nothing of the object
			return nil, fmt.Errorf("asking the agent for %s: %s", q.Key, err.Error())
		}
		if err != nil {
			return nil, fmt.Errorf("asking the agent for %s: %w", q.Key, err)
		}
		return judge(q, answer)
	})
}

// judge makes an error of an answer that is not what was asked for.
func judge(q backend.Question, answer *http.Response) (*http.Response, error) {
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", q.Key, fs.ErrNotExist)
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, fmt.Errorf("%s: %w", q.Key, backend.ErrShort)
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // what came will do
	return nil, fmt.Errorf("asking the agent for %s: it answers %s: %s", q.Key, answer.Status, strings.TrimSpace(string(text)))
}
