package userapi

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
)

const (
	// lines is the highest number of lines in a span; a user cannot fill the disk.
	lines, span = 100, 10 * time.Second
	// longest is how much of a path a line has, in bytes.
	longest = 256
)

// journal writes a line for each refusal.
type journal struct {
	log *slog.Logger
	now func() time.Time

	mu sync.Mutex
	// since begins the span, with that many lines and those left out.
	since         time.Time
	written, left int
}

// around serves requests and writes about those that are refused.
func (j *journal) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &witness{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		if refused(seen.status) {
			j.write(r, seen.status)
		}
	})
}

// refused reports whether a status tells of a refusal or a fault, and not of an object.
func refused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

func (j *journal) write(r *http.Request, status int) {
	okay, left := j.room()
	if !okay {
		return
	}
	path := r.URL.Path
	if len(path) > longest {
		path = path[:longest] + "..."
	}
	line := []any{"status", status, "method", r.Method, "path", path}
	if from, err := peer.FromContext(r.Context()); err == nil {
		line = append(line, "uid", from.UID)
	}
	if left > 0 {
		line = append(line, "leftOut", left)
	}
	j.log.Info("a request was refused", line...)
}

// room reports whether another line may be written, and how many were left out before it.
func (j *journal) room() (okay bool, left int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := j.now(); now.Sub(j.since) >= span || now.Before(j.since) {
		j.since, j.written = now, 0
	}
	if j.written >= lines {
		j.left++
		return false, 0
	}
	j.written++
	left, j.left = j.left, 0
	return true, left
}

// witness notes the status of an answer.
type witness struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *witness) WriteHeader(status int) {
	if w.status < http.StatusOK { // none, or one of 1xx
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }
