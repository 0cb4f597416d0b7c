package door

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/room"
	"github.com/muster-dev/muster/internal/turns"
)

// Refusal is an answer other than what was asked for.
type Refusal struct {
	// Status is that of HTTP.
	Status int
	// Text is a sentence for a person.
	Text string
	// RetryAfter is after when asking again makes sense; zero where it does not.
	RetryAfter time.Duration
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// trouble is the body of every answer that is not 2xx.
type trouble struct {
	Error   string   `json:"error"`
	Missing []string `json:"missing,omitempty"`
}

// broken breaks an answer off that has begun: nothing else can be told any more.
func (d *Door) broken(r *http.Request, err error) {
	d.opts.Log.Warn("an answer was broken off", "path", r.URL.Path, "error", err)
	panic(http.ErrAbortHandler)
}

// tell answers with an error, if anybody listens still.
func (d *Door) tell(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		d.say(w, r, err)
	}
}

// say answers with an error.
func (d *Door) say(w http.ResponseWriter, r *http.Request, err error) {
	refusal := refusalOf(err)
	if refusal.Status >= http.StatusInternalServerError {
		d.opts.Log.Warn("a request could not be answered", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(refusal.RetryAfter/time.Second)))
	}
	w.Header().Del("Content-Length") // of what was not sent
	send(w, refusal.Status, trouble{Error: refusal.Text})
}

// refusalOf says with which status an error is told.
func refusalOf(err error) *Refusal {
	var refusal *Refusal
	var busy *turns.Busy
	var large *http.MaxBytesError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &busy):
		return &Refusal{Status: http.StatusTooManyRequests, Text: busy.Text, RetryAfter: busy.After}
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "what was sent has more than %s", source.FormatBytes(large.Limit))
	case errors.Is(err, source.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "%v", err)
	case errors.Is(err, depot.ErrQuota), errors.Is(err, warehouse.ErrQuota), room.Full(err):
		return refuse(http.StatusInsufficientStorage, "%v", err)
	case errors.Is(err, depot.ErrInvalid):
		return refuse(http.StatusBadRequest, "%v", err)
	case errors.Is(err, depot.ErrNotStored):
		return refuse(http.StatusNotFound, "%v", err)
	case errors.Is(err, source.ErrDamaged):
		return refuse(http.StatusInternalServerError, "%v; submit the job again from its folder", err)
	case errors.Is(err, context.DeadlineExceeded):
		return &Refusal{Status: http.StatusServiceUnavailable, Text: "it took too long: try again in a moment", RetryAfter: 5 * time.Second}
	case errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsForbidden(err):
		return refuse(int(status.Status().Code), "%v", err)
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Text: err.Error(), RetryAfter: 5 * time.Second}
}

// send answers with JSON.
func send(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // nobody can be told
}
