package foreman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/muster-dev/muster/internal/foreman/inputlink"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// arriving begins the name of a folder of what a worker is just bringing.
const arriving = ".arriving-"

// What a worker may bring of one datum.
const (
	mostBytes   = 64 << 30
	mostEntries = 10_000_000
	mostOutcome = 1 << 20
	// mostLinks is how many bytes its links have, which are kept in memory until all
	// else has come.
	mostLinks = 16 << 20
	// silence is how long one may send nothing, and longest how long all of it may take.
	silence = time.Minute
	longest = time.Hour
)

// Post is the folder of a work whose files are carried: its socket and its token.
// It is all that its workers see of the foreman; who may reach the foreman's
// folder at all is for its own mode to say.
func (f *Foreman) Post(name string) string { return filepath.Join(f.o.Dir, "post", name) }

// openPost makes the folder by which the workers of a work reach the foreman,
// whoever they run as.
func (f *Foreman) openPost(ctx context.Context, w *Work) (net.Listener, error) {
	folder := f.Post(w.spec.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("making the post of work %s: %w", w.spec.Name, err)
	}
	// The process's umask does not know of other users.
	temp := filepath.Join(folder, shift.TokenFile+".new")
	err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(temp, []byte(w.token), 0o644), os.Chmod(temp, 0o644))
	if err == nil {
		err = os.Rename(temp, filepath.Join(folder, shift.TokenFile))
	}
	if err != nil {
		return nil, fmt.Errorf("writing the token of work %s: %w", w.spec.Name, err)
	}
	return listen(ctx, folder, 0o666)
}

// serve answers at the work's post until it is over.
func (w *Work) serve(ctx context.Context, post net.Listener) {
	server := w.foreman.server(ctx)
	w.group.Go(func() {
		if err := server.Serve(post); !errors.Is(err, http.ErrServerClosed) {
			w.foreman.o.Log.Error("workers of a stage cannot be served", "work", w.spec.Name, "error", err)
		}
	})
	w.group.Go(func() {
		<-ctx.Done()
		_ = server.Close() // workers ask again
	})
}

// begin notes which datums a worker begins with; the caller holds the lock. Where
// that cannot be written down, a worker's death is not counted as a try.
func (w *Work) begin(r *shift.Request) {
	for _, id := range r.Begun {
		if i, ok := w.ledger.index[id]; ok && w.ledger.entries[i].state == held && w.ledger.entries[i].worker == r.Worker {
			if err := shift.Advance(w.datumFolder(id), shift.GivenFile, shift.BegunFile); err != nil {
				w.foreman.o.Log.Warn("noting that a datum was begun", "work", w.spec.Name, "error", err)
			}
		}
	}
}

// send gives a worker the files of a datum that it has, and what was said of it
// before.
func (w *Work) send(out http.ResponseWriter, in *http.Request) {
	id, worker := in.PathValue("id"), in.URL.Query().Get(shift.WorkerParameter)
	w.mu.Lock()
	i, known := w.ledger.index[id]
	has := known && w.ledger.entries[i].state == held && w.ledger.entries[i].worker == worker
	w.mu.Unlock()
	if !has {
		http.Error(out, "this datum is not this worker's: it was not heard of for long, or the foreman was started anew", shift.StatusGone)
		return
	}
	out.Header().Set("Content-Type", "application/x-tar")
	if err := parcel.Write(out, w.datumFolder(id), shift.LogFile, shift.InFolder); err != nil {
		if in.Context().Err() == nil {
			w.foreman.o.Log.Warn("the files of a datum cannot be sent; it is tried again", "work", w.spec.Name, "datum", id, "error", err)
		}
		panic(http.ErrAbortHandler) // cuts the stream, by which who reads it knows
	}
}

// receive takes what a worker made of a datum. What is acknowledged is in the
// datum's folder, and known.
func (w *Work) receive(out http.ResponseWriter, in *http.Request) {
	from := &heard{from: in.Body, control: http.NewResponseController(out), until: time.Now().Add(longest)}
	err := w.arrive(in, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // who still sends does not hear the answer
	}
	var refused *parcel.Refusal
	switch {
	case err == nil:
		out.WriteHeader(http.StatusNoContent)
	case errors.As(err, &refused):
		http.Error(out, err.Error(), shift.StatusRefused)
	case errors.Is(err, errStranger):
		http.Error(out, err.Error(), shift.StatusGone)
	default:
		if in.Context().Err() == nil && !errors.Is(err, errBusy) && !errors.Is(err, errFull) {
			w.foreman.o.Log.Warn("what was made of a datum did not arrive; it is tried again", "work", w.spec.Name, "error", err)
		}
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
	}
}

// heard reads from somebody who is neither silent for long nor takes for ever.
type heard struct {
	from    io.Reader
	control *http.ResponseController
	until   time.Time
}

// Read implements [io.Reader].
func (h *heard) Read(p []byte) (int, error) {
	if time.Now().After(h.until) {
		return 0, fmt.Errorf("it took longer than %s to come", longest)
	}
	// Where that cannot be said, whoever hands it on sees to it.
	_ = h.control.SetReadDeadline(time.Now().Add(silence))
	return h.from.Read(p)
}

var (
	errStranger = errors.New("the work has no such datum")
	errBusy     = errors.New("the files of this datum are just being written: come again")
)

// arrive lays out what comes beside the datum's folder, and moves it there once it
// is whole and on disk.
func (w *Work) arrive(in *http.Request, from io.Reader) error {
	id := in.PathValue("id")
	w.mu.Lock()
	i, known := w.ledger.index[id]
	w.mu.Unlock()
	if !known {
		return errStranger
	}
	h := w.foreman.room.enter(w.spec.Owner)
	kept := false
	defer func() {
		if !kept {
			h.free()
		}
	}()
	size, _ := strconv.ParseInt(in.Header.Get(shift.SizeHeader), 10, 64) // or nothing is known
	if err := h.expect(size, in.Context().Done()); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(w.dir, arriving)
	if err != nil {
		return fmt.Errorf("making room for what was made of a datum: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // what stays behind goes with the work
	limits := parcel.Limits{Bytes: mostBytes, Entries: mostEntries, Links: mostLinks, Take: func(n int64) error { return h.use(n, in.Context().Done()) }, Given: givenFrom(w.datumFolder(id))}
	err = parcel.Read(from, temp, limits, shift.LogFile, shift.OutFolder, shift.OutcomeFile)
	if err != nil {
		return err
	}
	o, err := broughtOutcome(temp, id)
	if err != nil {
		return err
	}
	o.Worker = in.URL.Query().Get(shift.WorkerParameter)
	if !w.foreman.o.Near {
		if err = w.foreman.disk.sync(); err != nil {
			return err
		}
	}
	h.arrived()
	kept, err = w.install(i, temp, o, h)
	return err
}

// givenFrom makes files of the inputs in the folder of a datum part of a worker's output.
func givenFrom(folder string) func(to *os.Root, name, input string, take func(int64) error) error {
	return func(to *os.Root, name, input string, take func(int64) error) error {
		datum, err := os.OpenRoot(folder)
		if err != nil {
			return fmt.Errorf("opening the folder of the datum: %w", err)
		}
		defer func() { _ = datum.Close() }()
		err = (&inputlink.Settler{Out: to, Datum: datum, Take: take}).Put(name, input)
		if _, refused := errors.AsType[*inputlink.RefusedError](err); refused {
			return parcel.Refuse("%v", err)
		}
		return err
	}
}

// broughtOutcome reads the outcome that came along.
func broughtOutcome(folder, id string) (o shift.Outcome, err error) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return o, fmt.Errorf("reading the outcome that came: %w", err)
	}
	defer func() { _ = in.Close() }()
	text, err := osfile.ReadRegular(in, shift.OutcomeFile, mostOutcome)
	if err != nil {
		return o, parcel.Refuse("%s is missing, or is not a file of at most %d bytes: %v", shift.OutcomeFile, mostOutcome, err)
	}
	if err := json.Unmarshal(text, &o); err != nil || o.ID != id {
		return o, parcel.Refuse("%s is not the outcome of datum %s", shift.OutcomeFile, id)
	}
	return o, nil
}

// install moves what arrived to where a worker that shares the folder would have
// written it: the outcome of a success last, and of a failure the log alone. What
// comes a second time changes nothing. It returns whether what it has of the room is
// kept, until it is recorded.
func (w *Work) install(i int, temp string, o shift.Outcome, h *hold) (kept bool, err error) {
	w.mu.Lock()
	over := w.ledger.entries[i].state >= computed
	claimed := !over && w.claim(i, o.Worker)
	w.ledger.entries[i].arriving = claimed || w.ledger.entries[i].arriving
	w.mu.Unlock()
	switch {
	case over:
		return false, nil
	case !claimed:
		return false, errBusy
	}
	err = settle(temp, w.datumFolder(o.ID), o.Error == "")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger.entries[i].arriving = false
	if err != nil {
		// Whoever brought it brings it again; if nobody does, it is computed again.
		if who := w.ledger.hands[o.Worker]; who != nil {
			delete(who.has, i)
		}
		w.ledger.again(i, false, "")
		w.nudge()
		return false, fmt.Errorf("putting what was made of datum %s in its place: %w", o.ID, err)
	}
	if w.ledger.done(o) {
		if kept = o.Error == ""; kept {
			w.ledger.entries[i].brought = h
		}
		w.changed()
		w.nudge()
	}
	return kept, nil
}

// vacate gives back what the files of a work have of the room.
func (w *Work) vacate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.ledger.entries {
		w.ledger.entries[i].brought.free()
		w.ledger.entries[i].brought = nil
	}
}

// claim gives a datum to a worker; the caller holds the lock.
func (w *Work) claim(i int, worker string) bool {
	e := &w.ledger.entries[i]
	if e.state == ready {
		w.stocked -= e.Bytes
	}
	return w.ledger.claim(i, worker)
}

// adopt leaves to a worker what it has from a foreman before; the caller holds the
// lock.
func (w *Work) adopt(r *shift.Request) {
	for _, id := range r.Has {
		if i, ok := w.ledger.index[id]; ok && w.ledger.adoptable(i, r.Worker) {
			w.claim(i, r.Worker)
		}
	}
}

// settle moves the files from a folder to that of a datum.
func settle(from, to string, success bool) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	names := []string{shift.LogFile}
	if success {
		names = append(names, shift.OutFolder, shift.OutcomeFile)
		if err := os.MkdirAll(filepath.Join(from, shift.OutFolder), 0o755); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(from, name)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		target := filepath.Join(to, name)
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, name), target); err != nil {
			return err
		}
	}
	return nil
}
