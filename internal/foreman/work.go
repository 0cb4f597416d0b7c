package foreman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// Datum is something to compute.
type Datum struct {
	// ID names it within the work, and is the name of a folder.
	ID string
	// Name is what people know it by.
	Name string
	// Bytes is how much its files are.
	Bytes int64
}

// Result is a datum that was computed, or failed for good.
type Result struct {
	Datum
	shift.Outcome
	// Tries is how often it was tried.
	Tries int
	// Folder is the datum's folder: see the names in package shift. A datum that
	// failed before it was begun has none of the files.
	Folder string
}

// Failed says that it did not succeed.
func (r *Result) Failed() bool { return r.Error != "" }

// Spec is a work as whoever opens it describes it.
type Spec struct {
	// Name is the work's, for ever: it is found again by it.
	Name    string
	Program shift.Program
	// Owner is whose it is, where workers are known by that. Empty: by the token
	// alone.
	Owner  string
	Datums []Datum
	// Tries is how often a datum is tried, and FailFast that nothing is given out
	// any more once one has failed for good.
	Tries    int
	FailFast bool
	// Lent says that no workers compute it: whoever does is shown the datums' folders,
	// and [Work.Conclude] is told what became of them.
	Lent bool
	// Job tells the job whose workers are heard from others, by what the door says of
	// them. Empty: those of any are.
	Job string
	// Admit is asked once of each worker, and of each pod of a job that a work is lent
	// to, before it gets anything: [ErrOutdated] keeps it waiting until somebody ends it,
	// any other error until it is asked again. Nil: all are welcome.
	Admit func(ctx context.Context) error
	// Ended returns the reason why a member's worker that was first seen at a time has ended, empty if
	// none is known, and whether that answer is final. Nil: no reason is known.
	Ended func(ctx context.Context, member string, since time.Time) (reason string, vain bool)
	// Leader is, of a work that is lent, the member whose end is everybody's: Followers
	// go on until then, and its part is taken once all of theirs have come, of the very
	// attempt of the job that it is of itself. They know one another by a secret. Empty:
	// members end as they do.
	Leader    string
	Followers []string
	// Fetch writes the files of a datum below a folder, one for each input. Those may be
	// there, without anything in them. Programs that an earlier try left behind may write
	// there, too.
	Fetch func(ctx context.Context, d Datum, into *os.Root) error
	// Keep makes a folder with what a member of a job brought durable, under the
	// member's name: before it is acknowledged, in place of what that has brought before.
	// So it does, under a name that is no member's, with who has begun. An error that
	// another try would not change is a [*parcel.Refusal].
	// Kept lays out below a folder all that was kept, and Forget forgets it. Nil: they
	// stay in this foreman's folder alone.
	Keep   func(ctx context.Context, member, folder string) error
	Kept   func(ctx context.Context, folder string) error
	Forget func(ctx context.Context) error
	// Facts returns the facts about a datum for its program. It does not block. Nil: nothing.
	Facts func(d Datum) shift.Facts
	// Record makes results durable. After an error the same ones come again, unless it is a
	// [SpoiledError]: then that one comes as failed.
	Record func(ctx context.Context, results []Result) error
}

// Counts are the datums of a work by what became of them.
type Counts struct{ Total, Computed, Failed int }

// Status is how a work stands.
type Status struct {
	Counts
	// Local says that there is something to compute whose files are there.
	Local bool
	// Over says that all is recorded that ever will be.
	Over bool
	// Problem is why results cannot be recorded, or what members wrote cannot be kept,
	// just now.
	Problem string
	// First is the first datum that failed for good, if any.
	First *Result
	// GPUSeconds are GPUs held x seconds, GPUIdleSeconds those without a datum.
	GPUSeconds, GPUIdleSeconds float64
}

const (
	// The stock is so many datums, of so many bytes beyond the first, at most.
	stockDatums = 256
	stockBytes  = 1 << 30
	// fetchers is how many datums are prepared at once.
	fetchers = 2
	// recordEvery is how often results are recorded while more are to come.
	recordEvery = time.Second
	// recordAtOnce is how many results are recorded together.
	recordAtOnce = 4096
	// waitAtMost is how long a worker is kept waiting for an answer.
	waitAtMost = 10 * time.Second
	// answerWithin is how long a foreman that was started anew waits for workers to
	// say what they have.
	answerWithin = 10 * time.Second
	// forEver is longer than anything that computes.
	forEver = 100 * 365 * 24 * time.Hour
)

// Work is what a stage has to compute.
type Work struct {
	foreman *Foreman
	spec    Spec
	dir     string
	token   string
	group   sync.WaitGroup
	stop    context.CancelFunc
	wake    chan struct{} // the recorder

	mu      sync.Mutex
	ledger  *ledger
	stocked int64         // bytes in stock and on their way
	news    chan struct{} // closed, and another, whenever something changes
	problem string
	first   *Result
	told    time.Time
	refused string
	unkept  string // why what members say cannot be kept just now
	job     string // which one computes now; empty: any
	// closing is the last attempt of the job whose leader is done; nil: none is.
	closing *term
	shelf   shelf
	// entering are members that have begun and wait until that is kept, by their folders.
	entering map[string]person
	// heardOf are, of pods, when they were heard last; opened is when this foreman began
	// to hear any.
	heardOf map[string]*presence
	opened  time.Time
	ended   chan struct{} // closed once the work is

	// parts is held by who reads or changes what members of a job brought; restored says
	// that what was kept of it is here.
	parts    sync.Mutex
	restored bool
}

func (w *Work) datumFolder(id string) string { return filepath.Join(w.dir, id) }

// recover finds what workers had finished when nobody listened.
func (w *Work) recover() error {
	list, err := os.ReadDir(w.dir)
	if err != nil {
		return fmt.Errorf("looking at what is left of work %s: %w", w.spec.Name, err)
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		if strings.HasPrefix(e.Name(), arriving) || strings.HasPrefix(e.Name(), spare) {
			// What half arrived is brought again by whoever has it.
			if err := removeAll(w.datumFolder(e.Name())); err != nil {
				return fmt.Errorf("removing what is left of work %s: %w", w.spec.Name, err)
			}
			continue
		}
		i, known := w.ledger.index[e.Name()]
		if o, ok := readOutcome(w.datumFolder(e.Name())); ok && o.ID == e.Name() {
			w.ledger.done(o)
		} else if known && given(w.datumFolder(e.Name())) {
			// Its files may be in use: they are not written anew before whoever has
			// them could say so, or, where that is no worker, at all.
			wait := answerWithin - shift.Lease
			if w.spec.Lent {
				wait = forEver
			}
			w.ledger.leftBy(i, w.foreman.o.Now().Add(wait))
		}
	}
	return nil
}

// given says whether somebody was given the datum of a folder.
func given(folder string) bool {
	return slices.ContainsFunc([]string{shift.GivenFile, shift.BegunFile}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(folder, name))
		return err == nil
	})
}

// readOutcome reads what became of the datum of a folder. Programs may be able to write
// there: an outcome that is no file, or too long, counts as none.
func readOutcome(folder string) (o shift.Outcome, ok bool) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return o, false
	}
	defer func() { _ = in.Close() }()
	text, err := osfile.ReadRegular(in, shift.OutcomeFile, mostOutcome)
	return o, err == nil && json.Unmarshal(text, &o) == nil
}

// start begins to prepare and to record, and to serve the work's post.
func (w *Work) start(ctx context.Context, post net.Listener) {
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	if post != nil {
		w.serve(ctx, post)
	}
	for range fetchers {
		w.group.Go(func() { w.stockUp(ctx) })
	}
	w.group.Go(func() { w.recordAll(ctx) })
	w.foreman.group.Go(w.group.Wait)
	w.nudge()
}

// changed wakes everybody who waits for something; the caller holds the lock.
func (w *Work) changed() {
	close(w.news)
	w.news = make(chan struct{})
}

// nudge wakes the recorder.
func (w *Work) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// tell tells whoever opened the work; of mere progress once a second.
func (w *Work) tell(always bool) {
	now := w.foreman.o.Now()
	w.mu.Lock()
	late := always || now.Sub(w.told) >= time.Second
	if late {
		w.told = now
	}
	w.mu.Unlock()
	if late {
		w.foreman.board.Post(w.spec.Name)
	}
}

// stockUp prepares datums ahead of who computes them.
func (w *Work) stockUp(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		i, ok := -1, false
		if n := len(w.ledger.stock) + w.ledger.making; n == 0 || n < stockDatums && w.stocked < stockBytes {
			i, ok = w.ledger.next()
		}
		news := w.news
		if ok {
			w.stocked += w.ledger.entries[i].Bytes
		}
		w.mu.Unlock()
		if !ok {
			select {
			case <-news:
			case <-ctx.Done():
			}
			continue
		}
		problem := ""
		if err := w.fetch(ctx, i); err != nil {
			problem = err.Error()
		}
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		first := len(w.ledger.stock) == 0
		w.ledger.prepared(i, problem)
		if problem != "" {
			w.stocked -= w.ledger.entries[i].Bytes
			w.nudge()
		}
		w.changed()
		w.mu.Unlock()
		if first {
			w.tell(false)
		}
	}
}

// fetch writes the files of a datum into its folder, of which an earlier try
// leaves nothing but its log.
func (w *Work) fetch(ctx context.Context, i int) error {
	w.mu.Lock()
	d := w.ledger.entries[i].Datum
	w.mu.Unlock()
	path := w.datumFolder(d.ID)
	made := w.shelf.take(path)
	fresh := made
	if !made {
		err := os.Mkdir(path, 0o700)
		if fresh = err == nil; err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making the folder of datum %s: %w", d.Name, err)
		}
	}
	w.noteFresh(i, fresh)
	folder, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("making the folder of datum %s: %w", d.Name, err)
	}
	defer func() { _ = folder.Close() }()
	if !fresh {
		for _, old := range []string{shift.InFolder, shift.OutFolder, shift.OutcomeFile, shift.BegunFile, shift.GivenFile} {
			if err := folder.RemoveAll(old); err != nil {
				return fmt.Errorf("clearing the folder of datum %s: %w", d.Name, err)
			}
		}
	}
	if !made {
		if err := folder.Mkdir(shift.InFolder, 0o755); err != nil {
			return fmt.Errorf("making the folder of datum %s: %w", d.Name, err)
		}
	}
	in, err := osfile.OpenFolder(folder, shift.InFolder)
	if err != nil {
		return fmt.Errorf("making the folder of datum %s: %w", d.Name, err)
	}
	defer func() { _ = in.Close() }()
	if fresh && !made {
		w.shelf.learn(folder, in)
	}
	return w.fill(ctx, d, folder, in)
}

// noteFresh notes whether somebody was given the folder of a datum before.
func (w *Work) noteFresh(i int, fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger.entries[i].fresh = fresh
}

// fill writes the files of a datum, and makes the folder of its output where there is
// none.
func (w *Work) fill(ctx context.Context, d Datum, folder, in *os.Root) error {
	if err := folder.Mkdir(shift.OutFolder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder of datum %s: %w", d.Name, err)
	}
	if err := w.spec.Fetch(ctx, d, in); err != nil {
		return fmt.Errorf("fetching the files of datum %s: %w", d.Name, err)
	}
	return nil
}

// Status is how the work stands.
func (w *Work) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.ledger
	s := Status{Counts: l.counts, Over: l.over(), Problem: w.problem, First: w.first}
	if s.Problem == "" {
		s.Problem = w.unkept
	}
	s.Local = len(l.stock) > 0 || len(l.hands) > 0
	s.GPUSeconds, s.GPUIdleSeconds = l.gpus(w.foreman.o.Now())
	return s
}

// expire returns what workers have that are dead.
func (w *Work) expire(ctx context.Context) {
	before := w.foreman.o.Now().Add(-shift.Lease)
	reasons := w.unheard(ctx, before)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.ledger.expire(before) {
		problem := reasons[w.ledger.entries[i].worker]
		if problem == "" {
			problem = fmt.Sprintf("its worker was not heard of for %s", shift.Lease)
		}
		w.lose([]int{i}, problem)
	}
}

// lose has datums wait that a worker had which is gone; the caller holds the lock.
func (w *Work) lose(lost []int, problem string) {
	if len(lost) == 0 {
		return
	}
	for _, i := range lost {
		id := w.ledger.entries[i].ID
		folder := w.datumFolder(id)
		// A mark that was another datum's may yet be written to by who had that.
		if o, ok := readOutcome(folder); ok && o.ID == id {
			w.ledger.done(o) // it was finished, and could not say so
			continue
		}
		_, err := os.Lstat(filepath.Join(folder, shift.BegunFile))
		w.ledger.again(i, err == nil, problem)
	}
	w.changed()
	w.nudge()
}

// Add adds datums that are to be computed, too; those that it has already are not
// added again.
func (w *Work) Add(datums []Datum) {
	if len(datums) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger.add(datums)
	w.changed()
}

// Idle says that there is something to compute that nobody has.
func (w *Work) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ledger.stock) > 0 && !w.ledger.stopped
}

// Only is the one datum of a work that has one, with its folder.
func (w *Work) Only() (d shift.Datum, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ledger.entries) != 1 {
		return d, false
	}
	e := &w.ledger.entries[0]
	return shift.Datum{ID: e.ID, Name: e.Name, Folder: w.datumFolder(e.ID)}, true
}

// Lend notes that the files of the one datum of a work that has one are in use from
// now on: a foreman that is started anew leaves them as they are.
func (w *Work) Lend() error {
	d, ok := w.Only()
	if !ok {
		return errors.New("lending a datum: the work has not one")
	}
	// Members of a job before may have written there.
	folder, err := os.OpenRoot(d.Folder)
	if err == nil {
		err = errors.Join(osfile.ReplaceRegular(folder, shift.GivenFile, nil, 0o600), folder.Close())
	}
	if err != nil {
		return fmt.Errorf("lending datum %s: %w", d.Name, err)
	}
	return nil
}

// concluded says that it is known what became of a datum.
func (w *Work) concluded(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, known := w.ledger.index[id]
	return known && w.ledger.entries[i].state >= computed
}

// Conclude notes what became of a datum that no worker computes. What is said later
// changes nothing.
func (w *Work) Conclude(o shift.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ledger.done(o) {
		w.changed()
		w.nudge()
	}
}
