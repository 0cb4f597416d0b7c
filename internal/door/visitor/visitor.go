package visitor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/backend"
)

// Visitor asks the door. Its methods may be called from several goroutines.
type Visitor struct {
	// base is the address that the paths of the door follow.
	base string
	http *http.Client
	// token returns a token for a namespace; renew says that the last one was
	// refused.
	token func(ctx context.Context, namespace string, renew bool) (string, error)
	// full does so with one that says which groups who asks is in, too. Nil: there is
	// none.
	full func(ctx context.Context, namespace string, renew bool) (string, error)
	// machine says that the door is one machine's, behind its socket.
	machine bool
}

// Refused is an answer of the door, or of the API server before it, that is not
// what was asked for.
type Refused struct {
	// Status is that of HTTP.
	Status int
	// Text is a sentence for a person.
	Text string
	// Missing are contents that the door does not have.
	Missing []string
	// ByDoor is false where the request did not come as far as the door.
	ByDoor bool

	after time.Duration
	// object says that it is about an object of a store of data.
	object bool
}

// Error implements error.
func (r *Refused) Error() string { return r.Text }

// Is makes the refusals of a store of data what a backend says: that there is no
// object, and that it is shorter than what is asked of it.
func (r *Refused) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return r.object && r.Status == http.StatusNotFound
	case backend.ErrShort:
		return r.object && r.Status == http.StatusRequestedRangeNotSatisfiable
	}
	return false
}

// Is reports whether an error is a refusal with a status, by the door itself.
func Is(err error, status int) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.ByDoor && refused.Status == status
}

const (
	// tries is how often a busy door is asked.
	tries = 6
	// lostTries is how often it is asked where the answer is lost, and lostPause the
	// pause between two tries.
	lostTries, lostPause = 4, time.Second
	// troubleBytes is how much of an error is read.
	troubleBytes = 8 << 20
)

// request is what is asked.
type request struct {
	method, namespace string
	// path follows /v1/namespaces/<namespace>; without a namespace it is all.
	path string
	// body makes the body anew for each try; nil: none.
	body func() (io.ReadCloser, error)
	// again, if set, is called before a busy door is asked once more.
	again func(context.Context) error
	kind  string
	// sized says that the body has length bytes; else nobody knows how many.
	sized  bool
	length int64
	// span is the value of the header Range; empty: all of it.
	span string
	// full says that the door wants to know in which groups who asks is.
	full bool
	// steady asks again where the answer was lost, too: nothing is done twice by it.
	steady bool
}

// knock asks until there is an answer other than that the door is busy. The
// body of the answer has to be closed.
func (v *Visitor) knock(ctx context.Context, r request) (*http.Response, error) {
	renew := false
	for try := 1; ; try++ {
		answer, err := v.once(ctx, r, renew)
		var refused *Refused
		switch {
		case err == nil:
			return answer, nil
		case !errors.As(err, &refused):
			if !r.steady || try >= lostTries || !lost(err) || wait(ctx, lostPause) != nil {
				return nil, err
			}
			continue
		case refused.ByDoor && refused.Status == http.StatusUnauthorized && !renew:
			renew = true
			continue
		case refused.after == 0 || try == tries:
			return nil, err
		}
		if wait(ctx, refused.after) != nil {
			return nil, err
		}
		if r.again != nil {
			if err := r.again(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// lost reports whether an error is one of the way, and not an answer.
func lost(err error) bool {
	_, is := errors.AsType[*url.Error](err)
	return is
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// once asks once.
func (v *Visitor) once(ctx context.Context, r request, renew bool) (*http.Response, error) {
	of := v.token
	if r.full && v.full != nil {
		of = v.full
	}
	token, err := of(ctx, r.namespace, renew)
	if err != nil {
		return nil, err
	}
	var body io.ReadCloser
	if r.body != nil {
		if body, err = r.body(); err != nil {
			return nil, err
		}
	}
	path := r.path
	if r.namespace != "" {
		path = "/v1/namespaces/" + r.namespace + r.path
	}
	req, err := http.NewRequestWithContext(ctx, r.method, v.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("asking Muster's manager: %w", err)
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	if r.span != "" {
		req.Header.Set("Range", r.span)
	}
	if r.sized {
		req.ContentLength = r.length
		if r.length == 0 {
			req.Body = http.NoBody
		}
	}
	req.Header.Set(v1alpha1.DoorHeader, token)
	answer, err := v.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking Muster's manager: %w", err)
	}
	if answer.StatusCode < 300 && answer.Header.Get(v1alpha1.DoorMark) != "" {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	return nil, v.refusalIn(answer)
}

// refusalIn reads what an answer says that is not what was asked for.
func (v *Visitor) refusalIn(answer *http.Response) *Refused {
	out := &Refused{Status: answer.StatusCode, ByDoor: answer.Header.Get(v1alpha1.DoorMark) != "", object: answer.Header.Get(v1alpha1.DoorData) != ""}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, troubleBytes)) // what came will do
	if !out.ByDoor {
		var status struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = strings.TrimSpace(string(text[:min(len(text), 200)]))
		}
		if out.Text = onTheWay(answer.StatusCode, status.Message); v.machine {
			out.Text = "asking the Muster of this machine: " + cmp.Or(status.Message, answer.Status)
		}
		if answer.StatusCode == http.StatusServiceUnavailable || answer.StatusCode == http.StatusBadGateway {
			out.after = 2 * time.Second
		}
		return out
	}
	var trouble struct {
		Error   string   `json:"error"`
		Missing []string `json:"missing"`
	}
	if json.Unmarshal(text, &trouble) != nil || trouble.Error == "" {
		trouble.Error = "Muster's manager answers " + answer.Status
	}
	out.Text, out.Missing = trouble.Error, trouble.Missing
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		out.after = time.Duration(min(seconds, 60)) * time.Second
	}
	return out
}

// onTheWay says in words what kept a request from the door.
func onTheWay(status int, message string) string {
	why := ""
	if message != "" {
		why = " (" + message + ")"
	}
	switch status {
	case http.StatusForbidden:
		return "you may not ask Muster's manager: an administrator gives the right with `muster user add`, or binds the role muster-names to you" + why
	case http.StatusNotFound:
		return "the cluster's Muster has no door to ask at: an administrator installs this version with `muster install`" + why
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return "Muster's manager does not answer: does it run? `kubectl -n " + v1alpha1.SystemNamespace + " get pods` says" + why
	}
	return fmt.Sprintf("asking Muster's manager: the API server answers %d: %s", status, message)
}

// Report says how far the pods are on the node whose agent this is.
func (v *Visitor) Report(ctx context.Context, said map[types.UID]v1alpha1.PodProgress) error {
	return v.tell(ctx, v1alpha1.DoorReports, said, nil)
}

// Arrivals says how the data of the pods stands on the node whose agent this is, and
// returns the pods of which the door does not know, or not yet.
func (v *Visitor) Arrivals(ctx context.Context, said map[types.UID]v1alpha1.PodData) (unknown []types.UID, err error) {
	err = v.tell(ctx, v1alpha1.DoorArrivals, said, &unknown)
	return unknown, err
}

// Ahead are the orders of the node whose agent this is, of data that it is to fetch
// although no pod there names it yet. If they are those that seen stands for, which
// came with the last ones, they are waited for a while.
func (v *Visitor) Ahead(ctx context.Context, seen string) (orders []v1alpha1.DataOrder, version string, err error) {
	got, err := v.knock(ctx, request{method: http.MethodGet, path: v1alpha1.DoorAhead + "?seen=" + url.QueryEscape(seen)})
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = got.Body.Close() }()
	if err := json.NewDecoder(got.Body).Decode(&orders); err != nil {
		return nil, "", fmt.Errorf("reading the answer of Muster's manager: %w", err)
	}
	return orders, got.Header.Get("ETag"), nil
}

// tell says something of the pods of a node, and reads the answer, if one is wanted.
func (v *Visitor) tell(ctx context.Context, path string, said, answer any) error {
	text, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("writing how far pods are: %w", err)
	}
	got, err := v.knock(ctx, request{
		method: http.MethodPost, path: path, kind: "application/json",
		body: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
	})
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(got.Body).Decode(answer); err != nil {
		return fmt.Errorf("reading the answer of Muster's manager: %w", err)
	}
	return nil
}

// Ask asks for an answer in JSON and decodes it.
func (v *Visitor) Ask(ctx context.Context, namespace, path string, question, answer any) error {
	r := request{method: http.MethodGet, namespace: namespace, path: path}
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return fmt.Errorf("writing the question: %w", err)
		}
		r.method, r.kind = http.MethodPost, "application/json"
		r.body = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(text))), nil }
	}
	got, err := v.knock(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	if err := json.NewDecoder(got.Body).Decode(answer); err != nil {
		return fmt.Errorf("reading the answer of Muster's manager: %w", err)
	}
	return nil
}
