package foreman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// Names in the folder of a work that is lent, and in that of a part. Among the parts is
// a folder with who has begun, a file for each member; no member is called so.
const (
	partsFolder = ".parts"
	beganFolder = ".began"
	partFile    = "part.json"
)

// part is what one member of a job wrote: the newest pod of it.
type part struct {
	person
	Outcome shift.Outcome `json:"outcome"`
}

// folder is the name of the folder of a part. One who left in order has one of its own:
// another pod of the member may follow in the same attempt, and what both wrote counts.
func (p *part) folder() string {
	if p.Outcome.Left {
		return leftFolder(&p.person)
	}
	return p.person.folder()
}

// takePart takes what a member of a job wrote. What is acknowledged stays, whatever
// becomes of this foreman.
func (w *Work) takePart(out http.ResponseWriter, in *http.Request) {
	if !w.spec.Lent {
		http.Error(out, "this work is given out a datum at a time", shift.StatusRefused)
		return
	}
	from := &heard{from: in.Body, control: http.NewResponseController(out), until: time.Now().Add(longest)}
	who, err := personOf(in)
	if err == nil {
		defer w.hears(&who)()
		err = w.welcome(&who)
	}
	if err == nil {
		err = w.partArrives(in, from, &who)
	}
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // who still sends does not hear the answer
	}
	var refused *parcel.Refusal
	switch {
	case err == nil:
		out.WriteHeader(http.StatusNoContent)
	case errors.As(err, &refused):
		w.unfit(&who, err.Error())
		http.Error(out, err.Error(), shift.StatusRefused)
	default:
		if in.Context().Err() == nil && !unwanted(err) && !errors.Is(err, errFull) {
			w.foreman.o.Log.Warn("what a member wrote did not arrive; it is tried again", "work", w.spec.Name, "member", who.Member, "error", err)
		}
		http.Error(out, err.Error(), statusOf(err))
	}
}

// partArrives lays a part out beside where it goes, and moves it there once it is
// kept. It has of the foreman's room only until then: members end together, and one
// that waited for what another has would wait until the work is over.
func (w *Work) partArrives(in *http.Request, from io.Reader, who *person) error {
	h := w.foreman.room.enter(w.spec.Owner)
	defer h.free()
	done := in.Context().Done()
	size, _ := strconv.ParseInt(in.Header.Get(shift.SizeHeader), 10, 64) // or nothing is known
	if err := h.expect(size, done); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(w.dir, arriving)
	if err != nil {
		return fmt.Errorf("making room for what a member wrote: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // what stays behind goes with the work
	limits := parcel.Limits{Bytes: mostBytes, Entries: mostEntries, Links: mostLinks, Take: func(n int64) error { return h.use(n, done) }}
	limits.Given = func(to *os.Root, name, input string, take func(int64) error) error {
		folder, there := w.lent()
		if !there {
			return errors.New("the files of the stage are not here yet")
		}
		return givenFrom(folder)(to, name, input, take)
	}
	if err := parcel.Read(from, temp, limits, shift.OutFolder, shift.LogFile, shift.OutcomeFile); err != nil {
		return err
	}
	p := part{person: *who}
	if p.Outcome, err = broughtOutcome(temp, who.Member); err == nil {
		err = w.mayLeave(&p)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(temp, shift.OutcomeFile)); err != nil {
		return fmt.Errorf("laying out what a member wrote: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(temp, shift.OutFolder), 0o755); err != nil {
		return fmt.Errorf("laying out what a member wrote: %w", err)
	}
	if err := writeJSON(filepath.Join(temp, partFile), &p); err != nil {
		return err
	}
	ctx, cancel := w.untilEnded(context.WithoutCancel(in.Context())) // once it is here it is kept
	defer cancel()
	err = w.keepPart(ctx, &p, temp)
	w.trouble(err)
	return err
}

// untilEnded is a context that ends when the work is closed.
func (w *Work) untilEnded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// trouble notes why what members say cannot be kept just now, if it cannot.
func (w *Work) trouble(err error) {
	says := ""
	var refused *parcel.Refusal
	if err != nil && !unwanted(err) && !errors.Is(err, ErrOutdated) && !errors.Is(err, errTorn) && !errors.As(err, &refused) {
		says = err.Error()
	}
	w.mu.Lock()
	news := w.unkept != says
	w.unkept = says
	w.mu.Unlock()
	if news {
		w.tell(true)
	}
}

// keepPart puts a part in the place of what an older pod of the member brought. What
// comes a second time changes nothing.
func (w *Work) keepPart(ctx context.Context, p *part, from string) error {
	w.parts.Lock()
	defer w.parts.Unlock()
	if err := w.welcome(&p.person); err != nil {
		return err
	}
	if err := w.restore(ctx); err != nil {
		return err
	}
	place := filepath.Join(w.dir, partsFolder, p.folder())
	var before part
	there := readJSON(filepath.Join(place, partFile), &before) && w.counts(&before.person)
	if there && before.Pod == p.Pod {
		return nil
	}
	if began, follows := w.lastOf(&p.person); follows && p.older(&began) || there && p.older(&before.person) {
		return errFollowed
	}
	if p.Outcome.Error == "" && p.Member == w.spec.Leader {
		if err := w.followed(p); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return fmt.Errorf("keeping what %s wrote: %w", p.Member, err)
	}
	if w.spec.Keep != nil {
		err := w.spec.Keep(ctx, p.folder(), from)
		if errors.Is(err, syscall.ENAMETOOLONG) { // and always will be
			err = parcel.Refuse("%v: have the program write below shorter paths", err)
		}
		if err != nil {
			return fmt.Errorf("keeping what %s wrote: %w", p.Member, err)
		}
	} else if err := w.foreman.disk.sync(); err != nil {
		return err
	}
	// Killed between these two it was not acknowledged, and comes again.
	err := os.RemoveAll(place)
	if err == nil && w.spec.Kept != nil {
		err = os.RemoveAll(filepath.Join(from, shift.OutFolder))
	}
	if err == nil {
		err = os.Rename(from, place)
	}
	if err != nil {
		return fmt.Errorf("keeping what %s wrote: %w", p.Member, err)
	}
	switch p.Outcome.Exit {
	case shift.Unfit:
		w.unfit(&p.person, p.Outcome.Error)
	case shift.Unable:
		w.refuse(&p.person, "member %s cannot run: %s", p.Member, p.Outcome.Error)
	}
	w.mu.Lock()
	w.changed()
	w.mu.Unlock()
	w.tell(true)
	return nil
}

// unfit notes that a member wrote what cannot be kept.
func (w *Work) unfit(who *person, says string) {
	w.refuse(who, "what member %s wrote cannot be kept: %s", who.Member, says)
}

// refuse notes what another try of the job would not change, of which somebody says so.
// Of another job it says nothing.
func (w *Work) refuse(who *person, format string, args ...any) {
	w.mu.Lock()
	counts := w.heeds(who)
	if counts {
		w.refused = fmt.Sprintf(format, args...)
	}
	w.mu.Unlock()
	if counts {
		w.tell(true)
	}
}

// Refused says in words what another try of the job would not change, such as that a
// member wrote what cannot be kept; empty: there is nothing.
func (w *Work) Refused() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// Afresh forgets what members of a job before brought and said: another job begins.
func (w *Work) Afresh(ctx context.Context) error {
	w.parts.Lock()
	defer w.parts.Unlock()
	if w.spec.Forget != nil {
		if err := w.spec.Forget(ctx); err != nil {
			return fmt.Errorf("forgetting what members of a job before wrote: %w", err)
		}
	}
	w.restored = true
	w.mu.Lock()
	w.closing, w.refused = nil, ""
	w.mu.Unlock()
	if err := os.RemoveAll(filepath.Join(w.dir, partsFolder)); err != nil {
		return fmt.Errorf("forgetting what members of a job before wrote: %w", err)
	}
	return nil
}

// Unite makes the output of the one datum of what the members of its job brought.
// Those of must have to have brought something, and so has whoever has begun; the
// error is [ErrMissing], or a [*ClashError] where two of them wrote one path. Once it is
// concluded what becomes of the datum, its output is left as it is.
func (w *Work) Unite(ctx context.Context, must []string) error {
	d, ok := w.Only()
	if !ok {
		return errors.New("uniting what members wrote: the work has not one datum")
	}
	w.parts.Lock()
	defer w.parts.Unlock()
	if w.concluded(d.ID) {
		return nil // it may be being recorded
	}
	if err := w.restore(ctx); err != nil {
		return err
	}
	there, err := w.brought()
	if err != nil {
		return err
	}
	if there, err = w.whole(must, there); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(w.dir, arriving)
	if err != nil {
		return fmt.Errorf("making room for what members wrote: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // what stays behind goes with the work
	from, err := w.fetched(ctx, there)
	if err != nil {
		return err
	}
	if w.spec.Kept != nil {
		defer func() { _ = os.RemoveAll(from) }() // what stays behind goes with the work
	}
	if err := unite(temp, from, there); err != nil {
		return err
	}
	if err := w.adoptLogs(from, there); err != nil {
		return err
	}
	out := filepath.Join(d.Folder, shift.OutFolder)
	if err := os.MkdirAll(d.Folder, 0o700); err != nil {
		return fmt.Errorf("putting what members wrote in its place: %w", err)
	}
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("putting what members wrote in its place: %w", err)
	}
	if err := os.Rename(temp, out); err != nil {
		return fmt.Errorf("putting what members wrote in its place: %w", err)
	}
	return nil
}

// fetched is a folder with the files of these parts: where those are kept elsewhere, one
// of the caller's own.
func (w *Work) fetched(ctx context.Context, parts []part) (folder string, err error) {
	if w.spec.Kept == nil {
		return filepath.Join(w.dir, partsFolder), nil
	}
	folder, err = os.MkdirTemp(w.dir, arriving)
	if err != nil {
		return "", fmt.Errorf("making room for what members wrote: %w", err)
	}
	err = w.spec.Kept(ctx, folder)
	for i := range parts {
		var kept part
		if err == nil && (!readJSON(filepath.Join(folder, parts[i].folder(), partFile), &kept) || kept.Pod != parts[i].Pod) {
			err = fmt.Errorf("what %s wrote is not where it was kept", parts[i].Member)
		}
	}
	if err != nil {
		return "", fmt.Errorf("fetching what members wrote: %w", errors.Join(err, os.RemoveAll(folder)))
	}
	return folder, nil
}

// bare removes the files of all parts in a folder, which are kept elsewhere, and leaves
// what is known of them.
func bare(folder string) error {
	list, err := os.ReadDir(folder)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name(), shift.OutFolder)))
	}
	return err
}

// ErrMissing says that what a member wrote has not come.
var ErrMissing = errors.New("what it wrote has not come")

// whole are, of the parts that there are, those that make the output; [ErrMissing] where
// there are too few.
func (w *Work) whole(must []string, there []part) ([]part, error) {
	if w.spec.Leader != "" {
		return together(w.spec.Leader, w.spec.Followers, w.began(), there)
	}
	if who := missing(must, there, w.began()); who != "" {
		return nil, fmt.Errorf("%s: %w", who, ErrMissing)
	}
	return there, nil
}

// missing names a member that has to have brought something and has not; empty:
// there is none.
func missing(must []string, there []part, began []person) string {
	brought := map[string]*part{}
	for i := range there {
		brought[there[i].Member] = &there[i]
	}
	for _, name := range must {
		if brought[name] == nil {
			return name
		}
	}
	for i := range began {
		p := brought[began[i].Member]
		// One that began here and was followed elsewhere is of no interest any more.
		if p == nil || p.Pod != began[i].Pod && p.Born < began[i].Born {
			return began[i].Member
		}
	}
	return ""
}

// brought are the parts that there are.
func (w *Work) brought() ([]part, error) {
	var out []part
	list, err := os.ReadDir(filepath.Join(w.dir, partsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking at what members wrote: %w", err)
	}
	for _, e := range list {
		var p part
		if readJSON(filepath.Join(w.dir, partsFolder, e.Name(), partFile), &p) && p.folder() == e.Name() && w.counts(&p.person) {
			out = append(out, p)
		}
	}
	return out, nil
}

// restore fetches what was kept of parts, once: this foreman may have taken the place
// of another one. The caller holds the lock of parts.
func (w *Work) restore(ctx context.Context) error {
	if w.restored || w.spec.Kept == nil {
		return nil
	}
	temp, err := os.MkdirTemp(w.dir, arriving)
	if err != nil {
		return fmt.Errorf("making room for what members wrote: %w", err)
	}
	place := filepath.Join(w.dir, partsFolder)
	if err = w.spec.Kept(ctx, temp); err == nil {
		err = os.RemoveAll(place)
	}
	if err == nil {
		err = bare(temp)
	}
	if err == nil {
		err = os.Rename(temp, place)
	}
	if err != nil {
		return fmt.Errorf("fetching what members wrote: %w", errors.Join(err, os.RemoveAll(temp)))
	}
	w.restored = true
	return nil
}

// mostRecord is the longest record of a member, in bytes: an outcome is part of it.
const mostRecord = mostOutcome + 64<<10

// readJSON reads a record. A record from the store of the parts is untrusted: a tenant may write
// to that store, and replace the record by any other file.
func readJSON(path string, to any) bool {
	folder, err := os.OpenRoot(filepath.Dir(path) + "/.") // with the dot, a pipe is an error, and no wait
	if err != nil {
		return false
	}
	defer func() { _ = folder.Close() }()
	text, err := osfile.ReadRegular(folder, filepath.Base(path), mostRecord)
	return err == nil && json.Unmarshal(text, to) == nil
}

// writeJSON replaces a record.
func writeJSON(path string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err == nil {
		err = errors.Join(osfile.ReplaceRegular(folder, filepath.Base(path), text, 0o600), folder.Close())
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
