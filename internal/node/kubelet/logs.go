package kubelet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"

	"github.com/muster-dev/muster/internal/node/process"
)

// logs serves a container's output.
func logs(w http.ResponseWriter, r *http.Request, pods Pods) {
	query, previous, err := parse(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := r.Context()
	p, err := pods.Container(ctx, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), previous)
	if err != nil {
		http.Error(w, err.Error(), code(err))
		return
	}
	reader, err := p.Logs(ctx, query)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the pod has just gone, and its logs to the archive
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = reader.Close() }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out := flusher{w: w, flush: http.NewResponseController(w)}
	_ = out.flush.Flush()
	// An error here is the client's going away; there is nobody to tell.
	_, _ = io.Copy(out, reader)
}

func code(err error) int {
	switch {
	case errdefs.IsNotFound(err):
		return http.StatusNotFound
	case errdefs.IsInvalidInput(err):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// flusher sends each piece at once.
type flusher struct {
	w     io.Writer
	flush *http.ResponseController
}

// Write writes and flushes.
func (f flusher) Write(data []byte) (int, error) {
	n, err := f.w.Write(data)
	if err == nil {
		err = f.flush.Flush()
	}
	return n, err
}

// longest is the longest time that a Duration has, in seconds.
const longest = int64(math.MaxInt64 / time.Second)

// parse reads the options of a request for logs.
func parse(values url.Values, now time.Time) (q process.LogQuery, previous bool, err error) {
	q.Tail = -1
	var errs []error
	number := func(name string, least int64, set func(int64)) {
		if s := values.Get(name); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || n < least {
				errs = append(errs, fmt.Errorf("%s=%q: must be a whole number of at least %d", name, s, least))
				return
			}
			set(n)
		}
	}
	flag := func(name string, set *bool) {
		if s := values.Get(name); s != "" {
			b, err := strconv.ParseBool(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s=%q: must be true or false", name, s))
			}
			*set = b
		}
	}
	number("tailLines", 0, func(n int64) { q.Tail = int(n) })
	number("limitBytes", 1, func(n int64) { q.LimitBytes = n })
	number("sinceSeconds", 1, func(n int64) { q.Since = now.Add(-time.Duration(min(n, longest)) * time.Second) })
	flag("follow", &q.Follow)
	flag("timestamps", &q.Timestamps)
	flag("previous", &previous)
	if s := values.Get("sinceTime"); s != "" {
		if q.Since, err = time.Parse(time.RFC3339, s); err != nil {
			errs = append(errs, fmt.Errorf("sinceTime=%q: must be a time such as 2026-01-02T15:04:05Z", s))
		}
	}
	return q, previous, errors.Join(errs...)
}
