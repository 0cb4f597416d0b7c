package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// answer is one line of the API server's audit log: what it said yes or no to,
// and when, to the microsecond.
type answer struct {
	Verb      string `json:"verb"`
	ObjectRef struct {
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestURI     string    `json:"requestURI"`
	StageTimestamp time.Time `json:"stageTimestamp"`
}

// counter tells when pods became what is asked for, by the times at which the
// API server answered. A watch will not do: on a server that is as busy as it
// can be, it lags by up to a second.
type counter struct {
	log *os.File
	// rest is the beginning of a line whose end is not written yet.
	rest []byte
	// seen is when each pod became so, by name.
	seen map[string]time.Time
}

// looking is how often the log is looked at. What is counted does not depend on
// it: the times are the server's.
const looking = 20 * time.Millisecond

// count begins to count, from now on.
func (p *plane) count() (*counter, error) {
	log, err := os.Open(p.audit)
	if errors.Is(err, os.ErrNotExist) {
		log, err = os.OpenFile(p.audit, os.O_CREATE|os.O_RDONLY, 0o600) // nothing was audited yet
	}
	if err != nil {
		return nil, fmt.Errorf("beginning to count pods: %w", err)
	}
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("beginning to count pods: %w", err), log.Close())
	}
	return &counter{log: log, seen: map[string]time.Time{}}, nil
}

// until returns when n different pods were what is asked for: the moment at
// which the server answered to the last of them.
func (c *counter) until(ctx context.Context, n int, is func(*answer) bool) (time.Time, error) {
	defer func() { _ = c.log.Close() }()
	tick := time.NewTicker(looking)
	defer tick.Stop()
	var last time.Time
	for {
		data, err := io.ReadAll(c.log)
		if err != nil {
			return last, fmt.Errorf("reading the audit log: %w", err)
		}
		lines := bufio.NewReader(bytes.NewReader(append(c.rest, data...)))
		for len(c.seen) < n {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				c.rest = line
				break
			}
			a := &answer{}
			if err := json.Unmarshal(line, a); err != nil {
				return last, fmt.Errorf("reading the audit log: %w", err)
			}
			if a.ResponseStatus.Code >= 300 || !is(a) || !c.seen[a.ObjectRef.Name].IsZero() {
				continue
			}
			c.seen[a.ObjectRef.Name] = a.StageTimestamp
			if a.StageTimestamp.After(last) {
				last = a.StageTimestamp
			}
		}
		if len(c.seen) >= n {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("waiting for %d pods, of which %d came: %w", n, len(c.seen), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// created is true of a pod that was made: in this benchmark with its node.
func created(a *answer) bool {
	return a.Verb == "create" && a.ObjectRef.Subresource == "" && !strings.Contains(a.RequestURI, "dryRun=")
}

// bound is true of a pod that was given its node after it was made.
func bound(a *answer) bool { return a.Verb == "create" && a.ObjectRef.Subresource == "binding" }

// deleted is true of a pod that was told to go.
func deleted(a *answer) bool { return a.Verb == "delete" }

// of is the same for the pods whose name begins so.
func of(prefix string, is func(*answer) bool) func(*answer) bool {
	return func(a *answer) bool { return strings.HasPrefix(a.ObjectRef.Name, prefix) && is(a) }
}
