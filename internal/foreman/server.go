package foreman

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// Handler answers workers, who show the token of their work.
func (f *Foreman) Handler() http.Handler {
	return f.answering(func(w *Work, in *http.Request) string {
		said, _ := strings.CutPrefix(in.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(said), []byte(w.token)) != 1 {
			return "this is not the token of this work"
		}
		return ""
	})
}

// HandlerFor answers workers of whom somebody else has found out that they are an
// owner's: see [Spec].
func (f *Foreman) HandlerFor(owner string) http.Handler {
	return f.answering(func(w *Work, _ *http.Request) string {
		if owner == "" || w.spec.Owner != owner {
			return "this work is another's"
		}
		return ""
	})
}

// answering answers those about whom wrong has nothing to say.
func (f *Foreman) answering(wrong func(*Work, *http.Request) string) http.Handler {
	mux := http.NewServeMux()
	add := func(pattern string, serve func(*Work, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(out http.ResponseWriter, in *http.Request) {
			out.Header().Set(shift.Mark, "1")
			w := f.Find(in.PathValue("work"))
			if w == nil && f.over(in.PathValue("work")) {
				http.Error(out, "this work is over", shift.StatusGone)
				return
			}
			if w == nil {
				// It may be opened soon: this foreman may have just begun.
				http.Error(out, "there is no such work now", http.StatusServiceUnavailable)
				return
			}
			if says := wrong(w, in); says != "" {
				http.Error(out, says, http.StatusUnauthorized)
				return
			}
			if former := (&person{Job: in.Header.Get(shift.JobHeader)}); !w.spec.Lent && !w.counts(former) {
				http.Error(out, errFormer.Error(), shift.StatusGone)
				return
			}
			serve(w, out, in)
		})
	}
	add("POST "+shift.Path+"{work}", (*Work).talk)
	add("GET "+shift.Path+"{work}"+shift.DatumsPath+"{id}", (*Work).send)
	add("PUT "+shift.Path+"{work}"+shift.DatumsPath+"{id}", (*Work).receive)
	add("GET "+shift.Path+"{work}"+shift.SharedPath, (*Work).lendOut)
	add("PUT "+shift.Path+"{work}"+shift.PartPath, (*Work).takePart)
	add("GET "+shift.Path+"{work}"+shift.PartPath, (*Work).sayWhen)
	return mux
}

// mostSaid is how long a request of a worker may be: outcomes of 512 datums, with what
// went wrong in words.
const mostSaid = 4 << 20

// mostName is how many bytes the name of a worker has, and that of its place.
const mostName = 256

// talk answers what a worker says.
func (w *Work) talk(out http.ResponseWriter, in *http.Request) {
	var r shift.Request
	if err := json.NewDecoder(http.MaxBytesReader(out, in.Body, mostSaid)).Decode(&r); err != nil || r.Worker == "" {
		http.Error(out, "this is no request of a worker", http.StatusBadRequest)
		return
	}
	if len(r.Worker) > mostName || len(r.Member) > mostName {
		http.Error(out, fmt.Sprintf("the name of a worker, or its place, has more than %d bytes", mostName), http.StatusBadRequest)
		return
	}
	if err := w.admit(in.Context(), &r); err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if !w.hear(&r, w.replaced(in.Context(), &r)) {
		http.Error(out, fmt.Sprintf("this work has %d workers already, which is how many are heard: run fewer, or wait until some are gone", mostHands), http.StatusTooManyRequests)
		return
	}
	answer := w.answer(in.Context(), &r)
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(answer) // who went away asks again
}

// answer gives a worker what it wants, once there is something to give.
func (w *Work) answer(ctx context.Context, r *shift.Request) shift.Answer {
	ctx, cancel := context.WithTimeout(ctx, waitAtMost)
	defer cancel()
	for {
		if ctx.Err() != nil {
			return shift.Answer{} // nobody hears it, who would be given something
		}
		w.mu.Lock()
		a := w.give(r)
		news := w.news
		w.mu.Unlock()
		if len(a.Datums) > 0 || a.End || r.Want == 0 {
			return a
		}
		select {
		case <-ctx.Done():
			return a
		case <-news:
		}
	}
}

// ErrOutdated says that a worker began too late: it has not what the work was planned
// by. Whoever opened the work ends it.
var ErrOutdated = errors.New("what its variables come from has changed: the stage is planned again, for other workers")

// admitWithin is how long it may take to find out whether a worker is welcome.
const admitWithin = 10 * time.Second

// admit says why a worker that is not known yet gets nothing, if it does not.
func (w *Work) admit(ctx context.Context, r *shift.Request) error {
	w.mu.Lock()
	known := w.ledger.hands[r.Worker] != nil
	w.mu.Unlock()
	if known {
		return nil
	}
	return w.ask(ctx)
}

// ask asks whoever opened the work.
func (w *Work) ask(ctx context.Context) error {
	if w.spec.Admit == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, admitWithin)
	defer cancel()
	return w.spec.Admit(ctx)
}

// hear notes a worker's message, if there is a place for the worker. problem is the error for the
// datums of the worker that it replaces.
func (w *Work) hear(r *shift.Request, problem string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ledger.admits(r.Worker) {
		return false
	}
	w.lose(w.ledger.see(r, w.foreman.o.Now()), problem)
	w.adopt(r)
	news := false
	for _, o := range r.Done {
		o.Worker = r.Worker
		news = w.ledger.done(o) || news
	}
	w.begin(r)
	for _, id := range r.Back {
		if i, ok := w.ledger.index[id]; ok && w.ledger.entries[i].worker == r.Worker {
			w.ledger.again(i, false, "")
			delete(w.ledger.hands[r.Worker].has, i)
			news = true
		}
	}
	if w.spec.Program.Carried && r.Want > 0 {
		for _, i := range w.ledger.missed(r) {
			w.ledger.again(i, false, "")
			delete(w.ledger.hands[r.Worker].has, i)
			news = true
		}
	}
	if r.Leaving {
		w.lose(w.ledger.leave(w.ledger.hands[r.Worker]), workerEnded)
	}
	if news {
		w.changed()
		w.nudge()
	}
	return true
}

// give is what a worker can have now; the caller holds the lock.
func (w *Work) give(r *shift.Request) shift.Answer {
	a := shift.Answer{Program: &w.spec.Program}
	if r.Leaving || r.Want == 0 {
		a.End = w.ledger.stopped
		return a
	}
	if w.ledger.hands[r.Worker] == nil {
		return a // it was taken to be gone, and says something again
	}
	for _, i := range w.ledger.take(r.Worker, r.Want) {
		e := &w.ledger.entries[i]
		w.stocked -= e.Bytes
		d := shift.Datum{ID: e.ID, Name: e.Name}
		if !w.spec.Program.Carried {
			d.Folder = filepath.Join(w.dir, e.ID)
		}
		if w.spec.Facts != nil {
			d.Facts = w.spec.Facts(e.Datum)
		}
		if err := shift.Advance(w.datumFolder(e.ID), unmarked, shift.GivenFile); err != nil {
			w.foreman.o.Log.Warn("noting that a datum was given out", "work", w.spec.Name, "datum", e.Name, "error", err)
		}
		a.Datums = append(a.Datums, d)
	}
	if len(a.Datums) > 0 {
		w.ledger.hands[r.Worker].seen = w.foreman.o.Now()
		w.changed() // there is room in the stock
	}
	a.End = len(a.Datums) == 0 && w.ledger.empty()
	return a
}

// Linger waits until the work is over or ctx ends, and says which.
func (w *Work) Linger(ctx context.Context, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		w.mu.Lock()
		over, news := w.ledger.over(), w.news
		w.mu.Unlock()
		if over {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		case <-news:
		}
	}
}
