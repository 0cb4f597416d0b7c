package presence

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/fencing"
)

const (
	// within is the longest time that a verb waits for the check.
	within = 2 * time.Second
	// largest limits the part of an answer that is read, in bytes.
	largest = 1 << 20
)

// State is the state of Muster on a cluster.
type State struct {
	// Absent reports that the cluster does not serve Muster's kinds.
	Absent bool
	// Idle reports that no manager leads, and Since when, by the server's clock; zero
	// where none ever has.
	Idle  bool
	Since time.Time
	// Now is the server's clock.
	Now time.Time
}

// ErrAbsent is the error of a verb on a cluster without Muster.
var ErrAbsent = exit.NotFound("Muster is not installed on this cluster: muster install puts it there")

// Look reads the state of the cluster of f. If the read fails, in time or by the user's rights,
// Look assumes that all is well: the verb reports its own errors. Look does not check a Muster of
// one machine, which is its own manager.
func Look(ctx context.Context, f *connection.Factory) State {
	if kind, err := f.Kind(); err != nil || kind != connection.Cluster {
		return State{}
	}
	config, connections, err := f.Connections()
	if err != nil {
		return State{}
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return State{}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	code, now, body := ask(ctx, connections, server, "apis", "coordination.k8s.io", "v1", "namespaces", v1alpha1.SystemNamespace, "leases", fencing.LeaseName)
	switch code {
	case http.StatusOK:
		return judge(body, now)
	case http.StatusNotFound, http.StatusForbidden:
		group := v1alpha1.GroupVersion
		served, _, _ := ask(ctx, connections, server, "apis", group.Group, group.Version)
		switch {
		case served == http.StatusNotFound:
			return State{Absent: true, Now: now}
		case served == http.StatusOK && code == http.StatusNotFound:
			return State{Idle: true, Now: now}
		}
	}
	return State{}
}

// ask reads a path. The code is 0 if nothing answers.
func ask(ctx context.Context, connections *http.Client, server *url.URL, path ...string) (code int, now time.Time, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath(path...).String(), nil)
	if err != nil {
		return 0, now, nil
	}
	request.Header.Set("Accept", "application/json")
	answer, err := connections.Do(request)
	if err != nil {
		return 0, now, nil
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err = io.ReadAll(io.LimitReader(answer.Body, largest)); err != nil {
		return 0, now, nil
	}
	if now, err = http.ParseTime(answer.Header.Get("Date")); err != nil {
		now = time.Now() // a proxy took the date away
	}
	return answer.StatusCode, now, body
}

// patience is the number of lease durations after which a lease is old: another manager takes over
// within one.
const patience = 2

// judge reads the lease of the scheduler.
func judge(body []byte, now time.Time) State {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(body, &lease); err != nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return State{}
	}
	s := State{Now: now, Since: lease.Spec.RenewTime.Time}
	let := lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	// A manager that hands over in order has a successor within a second or two.
	s.Idle = now.Sub(s.Since) > patience*duration || let && now.Sub(s.Since) > duration/patience
	return s
}

// Warn writes a warning if no manager runs.
func (s State) Warn(streams terminal.Streams) {
	if !s.Idle {
		return
	}
	since := "no manager of Muster has run on this cluster yet"
	if !s.Since.IsZero() {
		since = fmt.Sprintf("no manager of Muster has run on this cluster for %s", terminal.Span(s.Now.Sub(s.Since)))
	}
	_, _ = fmt.Fprintf(streams.Err, "%s %s: jobs that run go on, no job starts, and deleted objects do not end until a manager runs; muster doctor says more\n",
		streams.ErrStyle().Paint(terminal.Yellow, "warning:"), since)
}
