package foreman

import (
	"context"
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
	defer w.hears(&who)()
	folder, there := w.lent()
	if !there {
		http.Error(out, "the files are not here yet", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := w.untilEnded(in.Context())
	if err = w.admitMember(ctx, &who); err == nil {
		err = w.enter(ctx, &who)
	}
	cancel()
	with := map[string]string{}
	if err == nil && w.spec.Leader != "" {
		with[shift.SecretFile], err = w.secretFor(folder, &who)
	}
	if in.Context().Err() == nil {
		w.trouble(err)
	}
	if err != nil {
		http.Error(out, err.Error(), statusOf(err))
		return
	}
	out.Header().Set("Content-Type", "application/x-tar")
	if err := parcel.WriteWith(out, with, folder, shift.InFolder); err != nil {
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

// admitMember says why a pod that has not begun yet gets nothing, if it does not.
func (w *Work) admitMember(ctx context.Context, who *person) error {
	if w.spec.Admit == nil {
		return nil
	}
	if err := w.welcome(who); err != nil {
		return err
	}
	w.parts.Lock()
	err := w.restore(ctx)
	last, there := w.lastOf(who)
	w.parts.Unlock()
	if err != nil || there && last.Pod == who.Pod {
		return err
	}
	return w.ask(ctx)
}

// lastOf is the pod of a member that began last; the caller holds the lock of parts.
func (w *Work) lastOf(who *person) (last person, there bool) {
	there = readJSON(filepath.Join(w.dir, partsFolder, beganFolder, who.folder()), &last) && w.counts(&last)
	return last, there
}

// enter notes that a member has begun, by which it is known that something is to
// come from it, also by who takes this foreman's place. Those that begin together are
// kept together.
func (w *Work) enter(ctx context.Context, who *person) error {
	if err := w.welcome(who); err != nil {
		return err
	}
	w.mu.Lock()
	if before, there := w.entering[who.folder()]; !there || !who.older(&before) {
		w.entering[who.folder()] = *who
	}
	w.mu.Unlock()
	w.parts.Lock()
	defer w.parts.Unlock()
	if err := w.welcome(who); err != nil {
		return err
	}
	if err := w.restore(ctx); err != nil {
		return err
	}
	note, err := w.begins(who)
	if err != nil || !note {
		return err
	}
	if err := w.noteBegun(ctx, who); err != nil {
		return fmt.Errorf("noting that %s has begun: %w", who.Member, err)
	}
	return nil
}

// begins says whether it is to be noted that a pod has begun, or why it does not begin;
// the caller holds the lock of parts. What is noted is waited for: of one that comes once
// its leader is done nothing will be.
func (w *Work) begins(who *person) (note bool, err error) {
	switch last, there := w.lastOf(who); {
	case there && who.older(&last):
		return false, errFollowed
	case there && last.Pod == who.Pod:
		return false, nil // somebody else has noted it
	case there && w.spec.Leader != "" && last.Attempt == who.Attempt && !w.left(&last):
		return false, errTorn
	}
	return !w.late(who), nil
}

// noteBegun keeps who has begun, with all those that wait for it; the caller holds the
// lock of parts.
func (w *Work) noteBegun(ctx context.Context, who *person) error {
	w.mu.Lock()
	fresh := w.entering
	w.entering = map[string]person{}
	w.mu.Unlock()
	fresh[who.folder()] = *who
	all := map[string]person{}
	for _, p := range w.began() {
		all[p.folder()] = p
	}
	for name, p := range fresh {
		if note, err := w.begins(&p); err != nil || !note || !w.counts(&p) {
			delete(fresh, name)
			continue
		}
		all[name] = p
	}
	if w.spec.Keep != nil {
		if err := w.keepBegun(ctx, all); err != nil {
			return err
		}
	}
	place := filepath.Join(w.dir, partsFolder, beganFolder)
	if err := os.MkdirAll(place, 0o700); err != nil {
		return err
	}
	for name, p := range fresh {
		if err := writeJSON(filepath.Join(place, name), &p); err != nil {
			return err
		}
	}
	return nil
}

func (w *Work) keepBegun(ctx context.Context, all map[string]person) error {
	temp, err := os.MkdirTemp(w.dir, arriving)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // what stays behind goes with the work
	for name, p := range all {
		if err := writeJSON(filepath.Join(temp, name), &p); err != nil {
			return err
		}
	}
	return w.spec.Keep(ctx, beganFolder, temp)
}

// began are those that have begun.
func (w *Work) began() []person {
	place := filepath.Join(w.dir, partsFolder, beganFolder)
	list, _ := os.ReadDir(place) // or nobody has
	var out []person
	for _, e := range list {
		var p person
		if readJSON(filepath.Join(place, e.Name()), &p) && p.folder() == e.Name() && w.counts(&p) {
			out = append(out, p)
		}
	}
	return out
}
