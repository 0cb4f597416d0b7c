package door

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Keys are the access keys of S3 clients. What is returned is sent as JSON. An error
// that has a status, as a [Refusal] has, is told with it.
type Keys interface {
	// Make makes a key for whoever asks and their namespace, which is good for a while;
	// 0: for as long as may be.
	Make(ctx context.Context, who Caller, life time.Duration) (any, error)
	// List shows the keys of a namespace, without their secrets.
	List(ctx context.Context, namespace string) (any, error)
	// Remove removes a key of whoever asks.
	Remove(ctx context.Context, who Caller, key string) error
}

// KeyWanted is what is sent to have a key made.
type KeyWanted struct {
	// Seconds is for how long it is to be good. 0: as long as may be.
	Seconds int64 `json:"seconds,omitempty"`
}

const (
	// freshness is how old a token may be that says who the user of a key is: it takes
	// less than that to come from the API server.
	freshness   = 15 * time.Minute
	wantedBytes = 4 << 10
)

// known refuses callers of whom it is not known who they are. Until this replica began
// nobody may have seen to it that tokens tell the truth, and they last for as long as
// was asked for: only young ones are believed.
func (d *Door) known(caller Caller) error {
	switch now := d.opts.Now(); {
	case caller.User == "":
		return refuse(http.StatusBadRequest, "the token does not say who you are, and keys are made for users: is this program of another version than the cluster's? `muster version` says")
	case caller.Issued.Before(d.began.Truncate(time.Second)), now.Sub(caller.Issued) > freshness:
		return refuse(http.StatusUnauthorized, "the token says since %s who you are, which is too long ago: ask for a new one", caller.Issued.UTC().Format(time.RFC3339))
	}
	return nil
}

// keys are those of a namespace for which a caller speaks.
func (d *Door) keys(r *http.Request, caller Caller) (Keys, error) {
	if err := caller.speaksFor(r.PathValue("namespace")); err != nil {
		return nil, err
	}
	if d.opts.Keys == nil {
		return nil, refuse(http.StatusNotFound, "there is no S3 gateway on this cluster, and so there are no access keys: an administrator has one with "+
			"`muster install --set data.gateway.enabled=true`; muster data reaches the same data")
	}
	return d.opts.Keys, nil
}

func (d *Door) makeKey(w http.ResponseWriter, r *http.Request, caller Caller) error {
	keys, err := d.keys(r, caller)
	if err == nil {
		err = d.known(caller)
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wantedBytes))
	if err != nil {
		return err
	}
	var wanted KeyWanted
	if err := json.Unmarshal(text, &wanted); err != nil || wanted.Seconds < 0 || wanted.Seconds > int64(time.Duration(1<<63-1)/time.Second) {
		return refuse(http.StatusBadRequest, `a key is asked for as {"seconds": 3600}, or {}: %s`, text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	made, err := keys.Make(ctx, caller, time.Duration(wanted.Seconds)*time.Second)
	if err != nil {
		return err
	}
	send(w, http.StatusCreated, made)
	return nil
}

func (d *Door) listKeys(w http.ResponseWriter, r *http.Request, caller Caller) error {
	keys, err := d.keys(r, caller)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	all, err := keys.List(ctx, caller.Namespace)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, all)
	return nil
}

func (d *Door) removeKey(w http.ResponseWriter, r *http.Request, caller Caller) error {
	keys, err := d.keys(r, caller)
	if err == nil {
		err = d.known(caller)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	if err := keys.Remove(ctx, caller, r.PathValue("key")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
