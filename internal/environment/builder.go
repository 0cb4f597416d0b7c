//go:build linux

package environment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/environment/notice"
	"github.com/muster-dev/muster/internal/environment/source"
)

// Options set up a [Builder]. Dir is required.
type Options struct {
	// Dir is where environments are kept; it is made where it is missing.
	Dir string
	// SearchPath is where interpreters are looked for, as in PATH. Default:
	// PATH.
	SearchPath string
	// Place runs the programs of builds, and the Python of environments that exist.
	// Nil: nothing is built.
	Place *confinement.Confinement
	// Code has the snapshots whose packages are built. Nil: none are.
	Code Code
	// Netrc reads the netrc of a Secret, <namespace>/<name>. Nil: there are none.
	Netrc func(ctx context.Context, secret string) (string, error)
	// Owner returns the user to whom a namespace belongs, on a machine that several users share. Nil: Muster
	// has one user.
	Owner func(ctx context.Context, namespace string) (confinement.User, error)
	// Refuse returns why nothing is built for a namespace now; empty: nothing is against it. Nil: nothing ever is.
	Refuse func(namespace string) string
	// Environ are Muster's own variables. Builds get some of them, such as the index of
	// packages. Default: [os.Environ].
	Environ []string
	// Limit is the longest time of a build. Default: an hour.
	Limit time.Duration
	// Builds is the highest number of builds at once; a namespace has one of them. Default: 1.
	Builds int
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Log hears of builds. Default: nobody.
	Log *slog.Logger
}

// Code has the snapshots of code that are stored for a namespace.
type Code interface {
	// Part returns a file or folder of a snapshot.
	Part(namespace, digest, path string) (source.Part, error)
	// CheckoutPart writes a file or folder of a snapshot to dst.
	CheckoutPart(ctx context.Context, namespace, digest, path, dst string) error
}

// Builder makes environments and keeps them.
type Builder struct {
	opts  Options
	board *notice.Board
	todo  *notice.Board // requests to look at

	slots *slots // the builds that may run

	mu     sync.Mutex
	orders map[string]*order // by request
}

// order is one request and how it stands.
type order struct {
	request Request
	state   State
	// open is true while it is queued or being worked on.
	open bool
	// failures counts failures in a row; retryAt is when asking tries again.
	failures int
	retryAt  time.Time
}

// errNoPlace is the error of a builder without [Options.Place].
var errNoPlace = errors.New("this program builds no environments")

const (
	// lookers is how many requests of a namespace are looked at, not built, at once.
	lookers = 4
	// firstRetry is how long a failure stands before asking tries again; it
	// doubles up to lastRetry.
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// New returns a builder; nothing is built until [Builder.Run].
func New(opts Options) (*Builder, error) {
	dir, err := filepath.Abs(opts.Dir)
	if opts.Dir == "" || err != nil {
		return nil, fmt.Errorf("keeping environments: %q is not a folder", opts.Dir)
	}
	if opts.SearchPath == "" {
		opts.SearchPath = os.Getenv("PATH")
	}
	if opts.Environ == nil {
		opts.Environ = os.Environ()
	}
	if opts.Limit <= 0 {
		opts.Limit = time.Hour
	}
	if opts.Builds <= 0 {
		opts.Builds = 1
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keeping environments: %w", err)
	}
	if opts.Owner != nil { // users enter their environments and do not list those of others
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, fmt.Errorf("keeping environments: %w", err)
		}
	}
	// An environment records its path. A link to the folder may go while others still use the folder.
	if opts.Dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("keeping environments: %w", err)
	}
	return &Builder{
		opts: opts, board: notice.New(), todo: notice.New(), orders: map[string]*order{},
		slots: newSlots(opts.Builds),
	}, nil
}

// Ensure answers, without blocking, how the request stands, and begins to see
// to it if need be. An environment that is ready stays ready for as long as it
// is on disk. One that failed is tried again when it is asked for again, after
// a pause that doubles with each failure.
//
// The answer that an environment is ready reserves it: it stays for the grace
// period of package retention, in which whoever asked may come to refer to it.
func (b *Builder) Ensure(r Request) State {
	id := r.ID()
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.orders[id]
	switch {
	case o == nil:
		o = &order{request: r}
		b.orders[id] = o
	case o.open:
		return o.state
	case o.state.Phase == Ready && b.stillThere(o):
		return o.state
	case o.state.Phase == Failed && b.opts.Now().Before(o.retryAt):
		return o.state
	}
	o.open, o.request = true, r // the code that an earlier one named may be gone
	o.state = State{Phase: Building, Key: o.state.Key, Message: "waiting to be looked at"}
	b.todo.Post(id)
	return o.state
}

// Changes tells for which request, by [Request.ID], or by its environment's
// key once that is known, [Builder.Ensure] has a new answer.
func (b *Builder) Changes() <-chan string { return b.board.Changes() }

// stillThere reports whether an environment that was ready still is, and reserves
// it. Those that somebody else made are not ours to remove.
func (b *Builder) stillThere(o *order) bool {
	if o.request.Path != "" {
		// A path of a user is not looked at as root: another file server may hang.
		return b.opts.Owner != nil || executable(filepath.Join(o.state.Path, "bin", "python"))
	}
	_, ok := reserve(b.home(o.state.Key), b.opts.Now())
	return ok
}

// Path is the folder of the environment with the given key, which must be
// ready; it counts as used now. It works for environments built by any process, and for existing ones
// that this builder has looked at.
func (b *Builder) Path(key string) (string, error) {
	if path, ok := b.ready(key); ok {
		note(b.home(key), useFile, b.opts.Now())
		return path, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.orders {
		if o.request.Path != "" && o.state.Key == key && o.state.Phase == Ready {
			return o.state.Path, nil
		}
	}
	return "", fmt.Errorf("environment %s is not ready on this machine", key)
}

// Run builds what is asked for, until ctx ends and everything it started has
// ended.
func (b *Builder) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { b.board.Run(ctx) })
	wg.Go(func() { b.todo.Run(ctx) })
	wg.Go(func() { b.todo.Serve(ctx, lookers, b.namespaceOf, func(id string) { b.see(ctx, id) }) })
	wg.Wait()
	return nil
}

func (b *Builder) namespaceOf(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orders[id].request.Namespace
}

// see sees one order through.
func (b *Builder) see(ctx context.Context, id string) {
	b.mu.Lock()
	o := b.orders[id]
	request := o.request
	b.mu.Unlock()
	tell := func(s State) { b.tell(id, s, false) }
	state, err := b.provide(ctx, request, tell)
	if ctx.Err() != nil {
		return // Muster is stopping: the next one starts over
	}
	if err != nil {
		b.opts.Log.Warn("an environment could not be made", "key", state.Key, "err", Mask(err.Error()))
		state = State{Phase: Failed, Key: state.Key, Message: Mask(err.Error())}
	}
	b.tell(id, state, true)
}

// provide makes the environment, or finds it made.
func (b *Builder) provide(ctx context.Context, r Request, tell func(State)) (State, error) {
	if r.Image != "" {
		return State{}, fmt.Errorf("requirements are installed for this machine's own Python, and not in the image %s; give one of the two", r.Image)
	}
	if r.Path != "" {
		if r.Requirements != "" || r.Python != "" {
			return State{}, errors.New("give requirements or the path of an environment, not both")
		}
		path := filepath.Clean(r.Path)
		if !filepath.IsAbs(path) {
			return State{}, fmt.Errorf("the environment's path %q must begin with /", r.Path)
		}
		user, err := b.owner(ctx, r.Namespace)
		if err != nil {
			return State{}, err
		}
		found, err := existing(ctx, b.opts.Place, path, user)
		if err != nil {
			return State{}, err
		}
		return State{Phase: Ready, Key: found.existingKey(path), Path: path, Message: "Python " + found.Version + " at " + path}, nil
	}
	text, err := Normalise(r.Requirements)
	if err != nil {
		return State{}, err
	}
	python, err := find(ctx, r.Python, b.opts.SearchPath)
	if err != nil {
		return State{}, err
	}
	contents, err := r.Contents(text)
	if err != nil {
		return State{}, err
	}
	user, err := b.owner(ctx, r.Namespace)
	if err != nil {
		return State{}, err
	}
	pinned := user != nil && shareable(r, text)
	switch {
	case pinned:
		user = nil
	case user != nil:
		contents = append(contents, ownerInput(user))
	}
	key := python.key(text, contents...)
	if path, ok := reserve(b.home(key), b.opts.Now()); ok {
		return State{Phase: Ready, Key: key, Path: path, Message: "ready, Python " + python.Version}, nil
	}
	if b.opts.Refuse != nil {
		if why := b.opts.Refuse(r.Namespace); why != "" {
			return State{Key: key}, errors.New(why)
		}
	}
	free, err := b.slots.take(ctx, r.Namespace, func() {
		tell(State{Phase: Building, Key: key, Message: "waiting for another environment to be built"})
	})
	if err != nil {
		return State{Key: key}, err
	}
	defer free()
	if b.opts.Place == nil {
		return State{Key: key}, errNoPlace
	}
	started := b.opts.Now()
	build := &build{
		home: b.home(key), key: key, python: python, requirements: text, code: b.opts.Code, namespace: r.Namespace, snapshot: r.Code, contents: r.Packages, secret: r.Secret, netrc: b.opts.Netrc, tell: tell, now: b.opts.Now,
		place: b.opts.Place, environ: b.opts.Environ, user: user, pinned: pinned,
	}
	if err := build.within(ctx, b.opts.Limit); err != nil {
		return State{Key: key}, err
	}
	b.opts.Log.Info("built an environment", "key", key, "python", python.Version, "took", b.opts.Now().Sub(started).Round(time.Millisecond))
	return State{Phase: Ready, Key: key, Path: build.path(), Message: "ready, Python " + python.Version, Done: build.total, Total: build.total}, nil
}

// owner is the user who asks; nil: Muster has one user.
func (b *Builder) owner(ctx context.Context, namespace string) (*confinement.User, error) {
	if b.opts.Owner == nil {
		return nil, nil
	}
	user, err := b.opts.Owner(ctx, namespace)
	return &user, err
}

// tell notes how an order stands and lets the listener know.
func (b *Builder) tell(id string, s State, done bool) {
	b.mu.Lock()
	o := b.orders[id]
	changed := o.state != s
	o.state, o.open = s, !done
	switch {
	case done && s.Phase == Failed:
		pause := min(firstRetry<<min(o.failures, 10), lastRetry)
		o.failures++
		o.retryAt = b.opts.Now().Add(pause)
	case done:
		o.failures = 0
	}
	b.mu.Unlock()
	if !changed {
		return
	}
	if s.Key != "" {
		b.board.Post(s.Key)
		return
	}
	b.board.Post(id)
}

// home is the folder of a key: the environment itself in "venv", and beside it
// the requirements, what was installed, the log of the build, the marker, and
// notes of when it was last reserved and used.
func (b *Builder) home(key string) string { return filepath.Join(b.opts.Dir, key) }

// ready reports whether an environment is complete, and where it is.
func (b *Builder) ready(key string) (string, bool) {
	if key == "" || strings.ContainsAny(key, `/\.`) {
		return "", false
	}
	return readyAt(b.home(key))
}
