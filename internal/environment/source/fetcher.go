package source

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/environment/notice"
)

// The defaults of a fetcher.
const (
	DefaultFetchBytes   = 64 << 20
	DefaultFetchTimeout = 60 * time.Second
	DefaultFetchTries   = 4
)

// FetcherOptions set up a [Fetcher]. Store or Shared is required.
type FetcherOptions struct {
	// Store is where scripts are kept, for all owners.
	Store *Store
	// Shared keeps each script for those who asked for it, in place of Store.
	Shared *Shared
	// MaxBytes is the largest script. Default: [DefaultFetchBytes].
	MaxBytes int64
	// Timeout bounds one try, from dialling to the last byte. Default:
	// [DefaultFetchTimeout].
	Timeout time.Duration
	// Tries is how often a fetch is tried that fails in a way that may pass.
	// Default: [DefaultFetchTries].
	Tries int
	// Backoff is the pause before the second try; it doubles with each.
	// Default: one second.
	Backoff time.Duration
	// Transport carries the requests. Default: one that honours the usual
	// proxy variables.
	Transport http.RoundTripper
	// Inner allows scripts from addresses that only this machine reaches: its own (loopback), link-local
	// ones, and those of its provider's metadata. Muster fetches with its own rights, so it is for a
	// Muster whose only user may reach these anyway.
	Inner bool
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Log hears of fetches. Default: nobody.
	Log *slog.Logger
}

// Shared keeps scripts by scope. Owners of one scope share a fetch; others never do.
type Shared struct {
	// Scope is the scope of an owner, such as its namespace.
	Scope func(owner string) string
	// Dir is the folder in which scripts are received. Nothing else is in it.
	Dir string
	// Keep stores the script in a file for a scope, and returns its snapshot's digest.
	Keep func(ctx context.Context, scope, file string) (digest string, err error)
}

// Phase is how far a fetch has come.
type Phase string

// The phases.
const (
	// Fetching: queued or under way.
	Fetching Phase = "Fetching"
	// Ready: stored.
	Ready Phase = "Ready"
	// Failed: the message says why.
	Failed Phase = "Failed"
)

// State is what is known of a fetch.
type State struct {
	Phase Phase
	// Digest names the snapshot that holds the script, once ready.
	Digest string
	// File is the script's name in the snapshot.
	File string
	// Message says in words what is going on, or what went wrong.
	Message string
}

// Fetcher makes snapshots of scripts on the web, in the background.
type Fetcher struct {
	opts   FetcherOptions
	client *http.Client
	board  *notice.Board
	todo   *notice.Board // errands: scope, NUL, URL

	mu      sync.Mutex
	asked   map[string]*asked  // by owner
	flights map[string]*flight // by errand, while under way
}

// asked is what one owner asked for, and the answer.
type asked struct {
	url   string
	state State
	at    time.Time
}

// flight is one fetch under way, for all owners of a scope who want that URL meanwhile.
type flight struct {
	scope, url string
	owners     map[string]bool
	state      State
}

const (
	// fetchWorkers is how many URLs are fetched at once.
	fetchWorkers = 4
	// rememberFor is how long a finished fetch is kept for its owner.
	rememberFor = time.Hour
)

// NewFetcher returns a fetcher; nothing is fetched until [Fetcher.Run].
func NewFetcher(opts FetcherOptions) (*Fetcher, error) {
	if (opts.Store == nil) == (opts.Shared == nil) {
		return nil, errors.New("making a fetcher: it needs one place for scripts, a store or those of scopes")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultFetchBytes
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultFetchTimeout
	}
	if opts.Tries == 0 {
		opts.Tries = DefaultFetchTries
	}
	if opts.Backoff == 0 {
		opts.Backoff = time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Transport == nil {
		opts.Transport = newTransport(opts.Timeout, opts.Inner)
	}
	return &Fetcher{
		opts:   opts,
		client: newClient(opts.Transport, opts.Timeout, opts.Inner),
		board:  notice.New(),
		todo:   notice.New(),
		asked:  map[string]*asked{}, flights: map[string]*flight{},
	}, nil
}

// Ensure answers, without blocking, how far the fetch of url for owner has
// come, and begins it if need be. The owner is any name: an owner who asks
// again gets the same answer, a new owner a new fetch, so that a script that
// was changed, or mended, on its server is fetched anew by the next job. A
// fetch of the same URL that is under way is shared.
func (f *Fetcher) Ensure(owner, url string) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.asked[owner]; a != nil && a.url == url {
		return a.state
	}
	f.forgetOld()
	a := &asked{url: url, at: f.opts.Now()}
	f.asked[owner] = a
	scope := f.scope(owner)
	errand := scope + "\x00" + url
	if fl := f.flights[errand]; fl != nil {
		fl.owners[owner] = true
		a.state = fl.state
		return a.state
	}
	if err := checkURL(url); err != nil {
		a.state = State{Phase: Failed, Message: err.Error()}
		return a.state
	}
	a.state = State{Phase: Fetching, File: FileName(url), Message: "waiting to fetch " + redact(url)}
	f.flights[errand] = &flight{scope: scope, url: url, owners: map[string]bool{owner: true}, state: a.state}
	f.todo.Post(errand)
	return a.state
}

// scope is that of an owner; a store is one scope.
func (f *Fetcher) scope(owner string) string {
	if f.opts.Shared == nil {
		return ""
	}
	return f.opts.Shared.Scope(owner)
}

// Changes tells for which owner [Fetcher.Ensure] has a new answer.
func (f *Fetcher) Changes() <-chan string { return f.board.Changes() }

// Has reports whether a snapshot is stored.
func (f *Fetcher) Has(digest string) bool { return f.opts.Store.Has(digest) }

// Contains reports whether a stored snapshot holds a file, see
// [Store.Contains].
func (f *Fetcher) Contains(digest, path string) (bool, error) {
	return f.opts.Store.Contains(digest, path)
}

func (f *Fetcher) forgetOld() {
	now := f.opts.Now()
	for owner, a := range f.asked {
		if a.state.Phase != Fetching && now.Sub(a.at) > rememberFor {
			delete(f.asked, owner)
		}
	}
}

// Run fetches what is asked for, until ctx ends and everything it started has
// ended.
func (f *Fetcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { f.board.Run(ctx) })
	wg.Go(func() { f.todo.Run(ctx) })
	for range fetchWorkers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case errand := <-f.todo.Changes():
					f.fly(ctx, errand)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// fly sees one fetch through.
func (f *Fetcher) fly(ctx context.Context, errand string) {
	f.mu.Lock()
	scope, url := f.flights[errand].scope, f.flights[errand].url
	f.mu.Unlock()
	pause := f.opts.Backoff
	for try := 1; ; try++ {
		digest, err := f.fetch(ctx, scope, url)
		if ctx.Err() != nil {
			return // Muster is stopping: the next one starts over
		}
		if err == nil {
			f.opts.Log.Info("fetched a script", "url", redact(url), "digest", digest)
			f.land(errand, State{Phase: Ready, Digest: digest, File: FileName(url), Message: "fetched " + redact(url)}, true)
			return
		}
		var passing *passingError
		if !errors.As(err, &passing) || try >= f.opts.Tries {
			f.opts.Log.Warn("a script could not be fetched", "url", redact(url), "tries", try, "err", err)
			f.land(errand, State{Phase: Failed, Message: err.Error()}, true)
			return
		}
		f.land(errand, State{Phase: Fetching, File: FileName(url), Message: err.Error() + "; trying again"}, false)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause *= 2
	}
}

// land tells every owner of a fetch how it stands.
func (f *Fetcher) land(errand string, state State, done bool) {
	f.mu.Lock()
	fl := f.flights[errand]
	fl.state = state
	for owner := range fl.owners {
		if a := f.asked[owner]; a != nil && a.url == fl.url {
			a.state, a.at = state, f.opts.Now()
		}
	}
	if done {
		delete(f.flights, errand)
	}
	owners := fl.owners
	f.mu.Unlock()
	for owner := range owners {
		f.board.Post(owner)
	}
}
