package foreman

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// lendOut sends a member the files of the one datum of a work that is lent.
func (w *Work) lendOut(out http.ResponseWriter, in *http.Request) {
	who, err := personOf(in)
	switch {
	case err != nil:
		http.Error(out, err.Error(), http.StatusForbidden)
		return
	case !w.spec.Lent:
		http.Error(out, "this work is given out a datum at a time", shift.StatusRefused)
		return
	}
	folder, there := w.lent()
	if !there {
		http.Error(out, "the files are not here yet", http.StatusServiceUnavailable)
		return
	}
	if err := w.enter(&who); err != nil {
		http.Error(out, err.Error(), statusOf(err))
		return
	}
	out.Header().Set("Content-Type", "application/x-tar")
	if err := parcel.Write(out, folder, shift.InFolder); err != nil {
		if in.Context().Err() == nil {
			w.foreman.o.Log.Warn("the files of a datum cannot be sent; it is tried again", "work", w.spec.Name, "member", who.Member, "error", err)
		}
		panic(http.ErrAbortHandler) // cuts the stream, by which who reads it knows
	}
}

// lent is the folder of the one datum of a work, once its files are there.
func (w *Work) lent() (folder string, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ledger.entries) != 1 {
		return "", false
	}
	e := &w.ledger.entries[0]
	return w.datumFolder(e.ID), e.state == ready || e.state == held
}

// enter notes that a member has begun, by which it is known that something is to
// come from it.
func (w *Work) enter(who *person) error {
	w.parts.Lock()
	defer w.parts.Unlock()
	path := filepath.Join(w.dir, beganFolder, who.folder())
	var last person
	if readJSON(path, &last) && who.older(&last) {
		return errFollowed
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("noting that %s has begun: %w", who.Member, err)
	}
	return writeJSON(path, who)
}
