package datavolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/fetcher"
	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
)

// Cache keeps parts of commits on the node.
type Cache interface {
	// Key is the name of a part in a cache ([cache.Key]).
	Key(context.Context, fetcher.Part) (string, error)
	// Ensure fetches a part; with spare only into room that no other data needs.
	// The error is [data.Unfit], wraps [fs.ErrNotExist], or is a [cache.RoomError]; after
	// any other, another try may succeed.
	Ensure(ctx context.Context, p fetcher.Part, spare *cache.Spare, progress func(data.Progress)) error
	// Path is the folder of an entry by its scoped key, and counts as a use of it. It is
	// false where the entry is not whole.
	Path(ctx context.Context, key string) (path string, whole bool)
	// Disk is the size of the cache's file system, in bytes.
	Disk() (int64, error)
}

// Folder is the folder of the cache, below the kubelet's folder.
func Folder(kubeletDir string) string {
	return filepath.Join(inline.Folder(kubeletDir, v1alpha1.DataDriver), "fetched")
}

// Options configure the driver. Node, Cache and Crier are required.
type Options struct {
	// Node is the name of the node.
	Node string
	// KubeletDir is the kubelet's folder. Default: /var/lib/kubelet.
	KubeletDir string
	// Cache keeps fetched parts in the folder that [Folder] returns. It removes no entry that
	// [Server.InUse] names.
	Cache Cache
	// Crier hears how the volumes of pods stand.
	Crier Crier
	// Orders are what is fetched before a pod names it. Nil: nothing is.
	Orders Orders
	// LeaveFree is how much of the disk is left free by that, in percent.
	LeaveFree int
	// Program puts the program that serves mounts in pods into a folder and returns its
	// path. Nil: data is only fetched.
	Program func(dir string) (string, error)
	// Pass hands what a pod of a namespace asks for at a path on to the door.
	Pass func(w http.ResponseWriter, r *http.Request, namespace, path string)
	// Backoff is the pause after a fetch failed; it doubles up to half a minute.
	// Default: a second.
	Backoff time.Duration
	// Boot names this life of the machine. Default: what the kernel says.
	Boot string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what no caller can, and what is fetched. Default: discarded.
	Log *slog.Logger
}

// The attributes of a volume, beside those that the kubelet adds.
const (
	attributeCommit = "commit"
	attributePath   = "path"
	attributeKey    = "key"
	attributeWords  = "words"
	// attributeLazy is "true" of what is mounted, and not fetched; attributeDesk of the
	// folder of the program that serves it.
	attributeLazy = "lazy"
	attributeDesk = "desk"
)

const (
	// tidyEvery is how often it is looked for volumes whose pods are gone.
	tidyEvery = time.Minute
	// fetchesAtOnce is how many parts are fetched at once: each reads many files at a
	// time, and has buffers for that.
	fetchesAtOnce = 2
)

// Server is the driver.
type Server struct {
	*inline.Driver

	options Options
	ledger  *ledger
	errands *inline.Errands
	board   *board
	agenda  *agenda
	desks   *desks
	// turns has as many places as parts are fetched at once.
	turns chan struct{}

	mu sync.Mutex
	// ends end the errands that are under way, by their parts.
	ends map[string]context.CancelFunc
	// freed is closed, and made anew, once a volume is gone: there may be room.
	freed chan struct{}
}

// New returns the driver; [Server.Run] offers it.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir := inline.Folder(o.KubeletDir, v1alpha1.DataDriver)
	ledger, err := openLedger(filepath.Join(dir, "volumes"), o.Boot)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o, ledger: ledger, errands: inline.NewErrands(), board: newBoard(o.Now), agenda: newAgenda(o.Now),
		turns: make(chan struct{}, fetchesAtOnce), ends: map[string]context.CancelFunc{}, freed: make(chan struct{}),
	}
	if s.desks, err = newDesks(dir, &s.options, ledger); err != nil {
		return nil, err
	}
	s.Driver = inline.New(inline.Options{Driver: v1alpha1.DataDriver, Node: o.Node, KubeletDir: o.KubeletDir, Handler: s, Log: o.Log})
	for handle, v := range ledger.with("") {
		if !v.Mounted.IsZero() {
			s.board.mounted(v.Pod, handle, v.Mounted)
		}
	}
	return s, nil
}

func (o *Options) complete() error {
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Boot != "" {
		return nil
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("reading since when the machine runs: %w", err)
	}
	o.Boot = strings.TrimSpace(string(id))
	return nil
}

// Run serves the kubelet until the context ends, and what it fetches with it. Volumes
// stay, and what was fetched. It is run once.
func (s *Server) Run(ctx context.Context) error {
	defer s.errands.Stop()
	defer s.desks.stop()
	s.tend(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Driver.Run(ctx) })
	group.Go(func() error {
		s.board.deliver(ctx, s.options.Crier, s.options.Log)
		return nil
	})
	group.Go(func() error {
		tick := time.NewTicker(tidyEvery)
		defer tick.Stop()
		for {
			s.tidy()
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			s.tend(ctx)
		}
	})
	if s.options.Orders != nil {
		group.Go(func() error {
			s.lookAhead(ctx)
			return nil
		})
		group.Go(func() error {
			s.takeOrders(ctx)
			return nil
		})
	}
	return group.Wait()
}

// InUse are the scoped keys of the entries of the cache that volumes name: they are not
// removed. Nothing else uses the cache.
func (s *Server) InUse() map[string]bool { return s.ledger.keys() }

// Publish has a pod see a part of a commit.
func (s *Server) Publish(ctx context.Context, asked inline.Volume) error {
	a := asked.Attributes
	v := volume{
		Namespace: a[inline.AttributeNamespace], Pod: a[inline.AttributePod], Commit: a[attributeCommit], Path: a[attributePath], Key: a[attributeKey],
		Words: printable(a[attributeWords]), Target: asked.Target, Boot: s.options.Boot,
		Lazy: a[attributeLazy] == "true", Desk: a[attributeDesk] == "true",
	}
	if err := v.check(); err != nil {
		return inline.Problem{Err: err}
	}
	// 1. Whatever it names stays from here on.
	v, err := s.ledger.note(asked.Handle, v)
	if err != nil {
		return err
	}
	// 2. It is here.
	if !inline.Shown(v.Target) {
		if err := s.show(ctx, asked.Handle, v); err != nil {
			return err
		}
	}
	// 3. It is mounted.
	if v, _ = s.ledger.get(asked.Handle); v.Mounted.IsZero() {
		v.Mounted = s.options.Now()
		if v, err = s.ledger.note(asked.Handle, v); err != nil {
			return err
		}
	}
	s.board.mounted(v.Pod, asked.Handle, v.Mounted)
	return nil
}

// show has a volume be seen, or makes its place where that comes later.
func (s *Server) show(ctx context.Context, handle string, v volume) error {
	switch {
	case v.Desk:
		return s.showDesk(ctx, handle, v)
	case v.Lazy:
		return s.showLater(handle, v)
	}
	folder, err := s.folder(ctx, handle, v)
	if err != nil {
		return err
	}
	top, below := filepath.Split(filepath.Dir(folder)) // <cache>/<key>/<files>
	return inline.Show(top, below+"/"+filepath.Base(folder), v.Target, true)
}

// folder is where the part of a volume is, which is fetched if need be.
func (s *Server) folder(ctx context.Context, handle string, v volume) (string, error) {
	if v.Key != "" {
		if path, here := s.options.Cache.Path(ctx, cache.Scoped(v.Namespace, v.Key)); here {
			return path, nil
		}
	}
	s.board.wait(v.Pod, handle, v1alpha1.DataFetching, "fetching "+v.called())
	err := errUnwanted
	for errors.Is(err, errUnwanted) && ctx.Err() == nil { // it was ended in this very moment
		err = s.errands.Do(ctx, v.part(), func(life context.Context) error { return s.bring(life, v) })
	}
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w", v.called(), err)
	}
	v, _ = s.ledger.get(handle)
	path, here := s.options.Cache.Path(ctx, cache.Scoped(v.Namespace, v.Key))
	if !here {
		return "", fmt.Errorf("fetching %s: it was removed while it was fetched; it is tried again", v.called())
	}
	return path, nil
}

// Forget forgets a volume that no pod sees any more. What nobody waits for is not
// fetched any further.
func (s *Server) Forget(handle string) error {
	v, known, wanted, err := s.ledger.forget(handle)
	if err != nil || !known {
		return err
	}
	if v.Desk {
		if err := s.desks.end(handle); err != nil {
			return err
		}
	}
	s.board.forget(v.Pod, handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.freed)
	s.freed = make(chan struct{})
	if wanted {
		return nil
	}
	if end := s.ends[v.part()]; end != nil {
		end()
	}
	return nil
}

// tidy forgets the volumes whose pods are gone without a word of the kubelet: it takes
// away only what it knows to have been mounted.
func (s *Server) tidy() {
	for handle, v := range s.ledger.with("") {
		if _, err := os.Stat(filepath.Dir(v.Target)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := s.Forget(handle); err != nil {
			s.options.Log.Error("forgetting a volume whose pod is gone; it is tried again", "error", err)
		}
	}
}

// printable is what a pod calls a part, as it can be shown.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
	if len(text) > longestWords {
		text = strings.ToValidUTF8(text[:longestWords], "") + "..."
	}
	return text
}
