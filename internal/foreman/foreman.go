package foreman

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/environment/notice"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// Options say how a foreman works.
type Options struct {
	// Dir is a folder of its own: for its socket and the files of datums.
	Dir string
	// Log hears of what nobody else can be told. Default: nobody.
	Log *slog.Logger
	// Arrivals is how many bytes of what workers bring may be in the folder and not
	// recorded yet; those of one owner are half of that at most. 0: as much as there is.
	Arrivals int64
	// Near says that all workers run on this machine and see none of the folder. A power failure ends them, too:
	// what they bring is not brought to disk before it is acknowledged, and after another boot it is removed.
	Near bool
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Foreman gives out datums. There is one for each folder.
type Foreman struct {
	o     Options
	board *notice.Board
	disk  barrier
	room  *room
	group sync.WaitGroup

	mu    sync.Mutex
	works map[string]*Work
	// past are works that were lent and are over, the last ones: what is still said
	// about them has no use.
	past []string
}

// mostPast is how many works that are over are kept in mind.
const mostPast = 1024

// New makes a foreman and its folder.
func New(o Options) (*Foreman, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil || o.Dir == "" {
		return nil, fmt.Errorf("making a foreman: %q is not a folder", o.Dir)
	}
	o.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a foreman's folder: %w", err)
	}
	if o.Near {
		if err := dropFormer(dir); err != nil {
			return nil, fmt.Errorf("removing the files of datums of an earlier boot: %w", err)
		}
	}
	return &Foreman{o: o, board: notice.New(), disk: barrier{dir: dir}, room: newRoom(o.Arrivals), works: map[string]*Work{}}, nil
}

// Changes tells of which work something is new, by its name.
func (f *Foreman) Changes() <-chan string { return f.board.Changes() }

// Dir is the foreman's folder.
func (f *Foreman) Dir() string { return f.o.Dir }

// Run serves workers until ctx ends. Works that are open stay as they are on disk.
func (f *Foreman) Run(ctx context.Context) error {
	listener, err := listen(ctx, f.o.Dir, 0o600)
	if err != nil {
		return err
	}
	server := f.server(ctx)
	var group sync.WaitGroup
	group.Go(func() { f.board.Run(ctx) })
	group.Go(func() {
		<-ctx.Done()
		_ = server.Close() // workers ask again
	})
	group.Go(func() { f.watch(ctx) })
	err = server.Serve(listener)
	f.mu.Lock()
	for _, w := range f.works {
		w.stop()
	}
	f.mu.Unlock()
	f.group.Wait()
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving workers: %w", err)
}

// listen makes a socket in a folder, by a name that is short however deep that is.
func listen(ctx context.Context, dir string, mode fs.FileMode) (net.Listener, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the foreman's folder: %w", err)
	}
	defer func() { _ = folder.Close() }()
	path := filepath.Join(dir, shift.SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of a foreman before: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), shift.SocketFile))
	if err != nil {
		return nil, fmt.Errorf("listening for workers: %w", err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("saying who may use the socket: %w", err), listener.Close())
	}
	return listener, nil
}

func (f *Foreman) server(ctx context.Context) *http.Server {
	return &http.Server{Handler: f.Handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
}

// watch takes datums from workers that were not heard of for the time of a lease.
func (f *Foreman) watch(ctx context.Context) {
	tick := time.NewTicker(shift.Lease / 8)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, w := range f.all() {
			w.expire(ctx)
		}
	}
}

func (f *Foreman) all() []*Work {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*Work, 0, len(f.works))
	for _, w := range f.works {
		out = append(out, w)
	}
	return out
}

// Find is the work of a name, nil where none is open.
func (f *Foreman) Find(name string) *Work {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.works[name]
}

// over says that a work was lent and is over.
func (f *Foreman) over(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.past, name)
}

// Open begins a work: datums are prepared from now on. What a foreman before had
// computed of it and not recorded is taken as done.
func (f *Foreman) Open(ctx context.Context, s Spec) (*Work, error) {
	if strings.ContainsAny(s.Name, "/ ") || s.Name == "" || strings.HasPrefix(s.Name, ".") {
		return nil, fmt.Errorf("opening a work: %q is no name for one", s.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.works[s.Name]; w != nil {
		return w, nil
	}
	w := &Work{foreman: f, spec: s, dir: f.folder(s.Name), ledger: newLedger(s.Datums, s.Tries, s.FailFast), news: make(chan struct{}), wake: make(chan struct{}, 1), job: s.Job, entering: map[string]person{}, heardOf: map[string]*presence{}, opened: f.o.Now(), ended: make(chan struct{})}
	w.shelf.dir, w.shelf.inputs = w.dir, s.Program.Inputs
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of work %s: %w", s.Name, err)
	}
	var err error
	if w.token, err = token(filepath.Join(w.dir, shift.TokenFile)); err != nil {
		return nil, err
	}
	if err := w.recover(); err != nil {
		return nil, err
	}
	f.past = slices.DeleteFunc(f.past, func(past string) bool { return past == s.Name })
	var post net.Listener
	if s.Program.Carried {
		if post, err = f.openPost(ctx, w); err != nil {
			return nil, err
		}
	}
	w.start(ctx, post)
	f.works[s.Name] = w
	return w, nil
}

// token is that of a folder, made where there is none yet.
func token(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading a token: %w", err)
	}
	made := rand.Text()
	if err := os.WriteFile(path, []byte(made), 0o600); err != nil {
		return "", fmt.Errorf("writing a token: %w", err)
	}
	return made, nil
}

// Folder is where the files of a work are.
func (f *Foreman) folder(name string) string { return filepath.Join(f.o.Dir, "work", name) }

// Folder is where workers of a work find its token.
func (f *Foreman) Folder(name string) string { return f.folder(name) }

// Close ends a work, if it is open, and removes its files. Its workers are told
// that there is nothing left to do, and nothing of it is kept any more once this returns.
func (f *Foreman) Close(name string) error {
	f.mu.Lock()
	w := f.works[name]
	delete(f.works, name)
	if w != nil && w.spec.Lent {
		f.past = append(f.past, name)
		f.past = f.past[max(0, len(f.past)-mostPast):]
	}
	f.mu.Unlock()
	if w != nil {
		close(w.ended)
		w.stop()
		w.group.Wait()
		w.parts.Lock()   // until who just keeps something has heard of it
		w.parts.Unlock() //nolint:staticcheck // nothing is done within
		w.vacate()
	}
	// The token goes first: who sees none knows that the work is over.
	for _, folder := range []string{f.Post(name), f.folder(name)} {
		err := os.Remove(filepath.Join(folder, shift.TokenFile))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = removeAll(folder)
		}
		if err != nil {
			return fmt.Errorf("removing the files of work %s: %w", name, err)
		}
	}
	return nil
}

// endings is for how long who has lost its token may still write where it worked.
const endings = 2 * time.Second

// removeAll removes a folder in which a worker may be ending, which makes a file or two
// while this looks elsewhere.
func removeAll(folder string) error {
	for begun := time.Now(); ; {
		err := os.RemoveAll(folder)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Since(begun) > endings {
			return err
		}
	}
}

// Known are the works that have a folder, open or not.
func (f *Foreman) Known() ([]string, error) {
	list, err := os.ReadDir(filepath.Join(f.o.Dir, "work"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing works: %w", err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out, nil
}
