// Package explanation owns how an explanation of the scheduler is shown: as a
// document for programs and as lines for people.
//
// It must not know any command.
package explanation

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/visibility"
)

// Document is an explanation for programs.
type Document struct {
	// Asked is that nodes were asked for; absent where they were not.
	Asked *Asked `json:"asked,omitempty"`
	// Position is the place in the order of turns; absent unless it waits.
	Position *Position `json:"position,omitempty"`
	// Expected is when it will start; absent where that cannot be said.
	Expected *Expected `json:"expected,omitempty"`
	// Advice are the nodes to make ready again if these have what is missing, the
	// smallest changes with which it would start now, and what it may have later as
	// it is.
	Advice []Advice `json:"advice,omitempty"`
	// Tenure is for how long it keeps what it has; absent unless it is placed.
	Tenure *Tenure `json:"tenure,omitempty"`
	// Ends is when it is expected to end; absent unless it is placed and
	// something is known of how long it runs.
	Ends *Expected `json:"ends,omitempty"`
	// Size is how many members it has; absent unless it is placed and elastic.
	Size *Size `json:"size,omitempty"`
}

// Size is how many members an elastic job that is placed has.
type Size struct {
	// Has is how many stay; Least is with how many it starts, and Most how many
	// it may have. Leaving is how many make room for others.
	Has     int32 `json:"has"`
	Least   int32 `json:"least"`
	Most    int32 `json:"most"`
	Leaving int32 `json:"leaving,omitempty"`
	// Code names the kind of why it is not given another; absent if it has all.
	Code string `json:"code,omitempty"`
	Text string `json:"text"`
}

// Position is a place in the order of turns.
type Position struct {
	// Place counts from 1, Of how many wait.
	Place int `json:"place"`
	Of    int `json:"of"`
	// How many of those ahead are there because their priority is higher, they
	// have waited for too long, they are shorter, they are older, or their
	// queue or user has had less.
	Priority int    `json:"higherPriority,omitempty"`
	Overdue  int    `json:"overdue,omitempty"`
	Shorter  int    `json:"shorter,omitempty"`
	Older    int    `json:"older,omitempty"`
	Owed     int    `json:"hadLess,omitempty"`
	Text     string `json:"text"`
}

// Asked is that nodes were asked for, of the cluster's autoscaler.
type Asked struct {
	// Members is for how many.
	Members int32  `json:"members"`
	Text    string `json:"text"`
}

// Expected is the range in which it starts, or ends, in four of five cases.
type Expected struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Basis is "progress", "declared", "history", "limit" or "guess".
	Basis string `json:"basis"`
	// Later is true where rules about other pods may make it later.
	Later bool   `json:"mayBeLater,omitempty"`
	Text  string `json:"text"`
}

// Advice is a change, or what will come by itself.
type Advice struct {
	// Code names the kind.
	Code string `json:"code"`
	Text string `json:"text"`
	// Details are its figures.
	Details any `json:"details,omitempty"`
}

// Tenure is whether it may have to make room for others.
type Tenure struct {
	// MakingRoom is since when it has to go; absent if it has not.
	MakingRoom *time.Time `json:"makingRoomSince,omitempty"`
	// SafeUntil is before when it is not stopped, whatever comes.
	SafeUntil time.Time `json:"safeUntil"`
	// ForShorter says that it may be stopped for shorter work.
	ForShorter bool `json:"mayBeStoppedForShorterWork"`
	// Evictions is how often it was stopped for others already.
	Evictions int32  `json:"evictions"`
	Text      string `json:"text"`
}

// New makes the document of an explanation.
func New(x scheduling.Explanation, clock scheduling.Clock) Document {
	var d Document
	if x.Asked > 0 {
		d.Asked = &Asked{Members: x.Asked, Text: scheduling.AskedText(x.Asked)}
	}
	if p := x.Position; p != nil {
		d.Position = &Position{
			Place: p.Place, Of: p.Of, Priority: p.Priority, Overdue: p.Overdue, Shorter: p.Shorter, Older: p.Older, Owed: p.Owed,
			Text: p.Render(),
		}
	}
	if e := x.Expected; e != nil {
		d.Expected = &Expected{From: moment(e.From), To: moment(e.To), Basis: string(e.Basis), Later: e.Later, Text: e.Render(clock)}
	}
	if e := x.Ends; e != nil {
		d.Ends = &Expected{From: moment(e.From), To: moment(e.To), Basis: string(e.Basis), Text: e.Render(clock)}
	}
	d.Advice = returning(x.Reason)
	for _, a := range x.Advice {
		d.Advice = append(d.Advice, Advice{Code: string(a.Code()), Text: a.Render(clock), Details: Details(a)})
	}
	if s := x.Size; s != nil {
		d.Size = &Size{Has: s.Has, Least: s.Least, Most: s.Most, Leaving: s.Leaving, Text: s.Render(clock)}
		if s.Why != nil {
			d.Size.Code = string(s.Why.Code())
		}
	}
	if t := x.Tenure; t != nil {
		d.Tenure = &Tenure{SafeUntil: moment(t.SafeUntil), ForShorter: t.ForShorter, Evictions: t.Evictions, Text: t.Render(clock)}
		if t.MakingRoom != 0 {
			since := moment(t.MakingRoom)
			d.Tenure.MakingRoom = &since
		}
	}
	return d
}

func moment(t scheduling.Instant) time.Time {
	return time.Unix(0, int64(t)).UTC().Truncate(time.Second)
}

// Write puts the document into lines.
func (d Document) Write(out io.Writer) error {
	var lines []string
	if d.Asked != nil {
		lines = append(lines, "Nodes:    "+d.Asked.Text)
	}
	if d.Position != nil {
		lines = append(lines, "Turn:     "+d.Position.Text)
	}
	if d.Expected != nil {
		lines = append(lines, "Expected: "+d.Expected.Text)
	}
	if d.Ends != nil {
		lines = append(lines, "Ends:     "+d.Ends.Text)
	}
	if d.Size != nil {
		lines = append(lines, "Members:  "+d.Size.Text)
	}
	if d.Tenure != nil {
		lines = append(lines, "It "+d.Tenure.Text)
	}
	for i, a := range d.Advice {
		lead := "          or: "
		if i == 0 {
			lead = "Sooner:   "
		}
		lines = append(lines, lead+a.Text)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, "  "+line); err != nil {
			return err
		}
	}
	return nil
}

// Of explains the named gang, or with pod the lone pod of that name, from lists made now.
// The error is NotFound where the scheduler knows none.
func Of(ctx context.Context, reader client.Reader, key scheduling.Key, pod bool) (scheduling.Explanation, error) {
	s, err := snapshot.Take(ctx, reader, time.Now())
	if err != nil {
		return scheduling.Explanation{}, err
	}
	return account(s, key, pod)
}

// Seen explains it with the names that a caller sees.
func Seen(ctx context.Context, reader client.Reader, rule visibility.Rule, logins visibility.Logins, key scheduling.Key, pod bool) (scheduling.Explanation, error) {
	s, err := snapshot.Take(ctx, reader, time.Now())
	if err != nil {
		return scheduling.Explanation{}, err
	}
	seen, mask := snapshot.Redact(s, rule, logins)
	x, err := account(seen, key, pod)
	if err != nil {
		return x, err
	}
	return mask.Explanation(x), nil
}

func account(s scheduling.Snapshot, key scheduling.Key, pod bool) (scheduling.Explanation, error) {
	x, ok := scheduling.Account(s, key, pod)
	if !ok {
		resource := v1alpha1.GroupVersion.WithResource("gangs").GroupResource()
		if pod {
			resource = corev1.Resource("pods")
		}
		return x, apierrors.NewNotFound(resource, key.Name)
	}
	return x, nil
}
