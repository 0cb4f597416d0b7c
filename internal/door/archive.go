package door

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/muster-dev/muster/internal/answer/archivedlog"
	"github.com/muster-dev/muster/internal/visibility"
)

// archived lists the pods of a job whose output is kept and that are gone.
func (d *Door) archived(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Logs != nil, func(_ context.Context, rule visibility.Rule) (any, error) {
		pods, err := d.opts.Logs.Pods(rule.Own, r.PathValue("job"))
		if pods == nil {
			pods = []string{}
		}
		return pods, logTrouble(err)
	})
}

// sendLog sends the output of such a pod, each line with its time.
func (d *Door) sendLog(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace := r.PathValue("namespace")
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	if d.opts.Logs == nil {
		return refuse(http.StatusNotFound, "no output of pods that are gone is kept here")
	}
	kept, err := keptOf(r.PathValue("pod"), r.URL.Query())
	if err != nil {
		return err
	}
	log, err := d.opts.Logs.Open(namespace, r.PathValue("job"), kept)
	if err != nil {
		return logTrouble(err)
	}
	defer func() { _ = log.Close() }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = io.Copy(w, log)
	return err
}

// logTrouble gives the errors of an archive their status.
func logTrouble(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(http.StatusNotFound, "no output of such a pod is kept")
	case errors.Is(err, archivedlog.ErrName):
		return refuse(http.StatusBadRequest, "%v", err)
	}
	return err
}

// keptOf reads which part of an archive a request names.
func keptOf(pod string, query url.Values) (archivedlog.Kept, error) {
	kept := archivedlog.Kept{Pod: pod, Container: query.Get("container"), Tail: -1}
	var ok bool
	if kept.Which, ok = archivedlog.ParseWhich(query.Get("which")); !ok {
		return kept, refuse(http.StatusBadRequest, "which=%q: give all, latest or earlier", query.Get("which"))
	}
	if text := query.Get("tail"); text != "" {
		tail, err := strconv.Atoi(text)
		if err != nil || tail < -1 {
			return kept, refuse(http.StatusBadRequest, "tail=%q: give a number of lines, or -1 for all", text)
		}
		kept.Tail = tail
	}
	if text := query.Get("since"); text != "" {
		since, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return kept, refuse(http.StatusBadRequest, "since=%q: give a time such as 2026-01-02T15:04:05Z", text)
		}
		kept.Since = since
	}
	return kept, nil
}
