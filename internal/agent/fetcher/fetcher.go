//go:build linux

package fetcher

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/osfile"
)

// Pass hands a request of the process on to the manager's door, at a path of a namespace.
type Pass func(w http.ResponseWriter, r *http.Request, namespace, path string)

// Options configure a [Fetcher]. Sockets, Program, Pass and at least one folder are
// required.
type Options struct {
	// Sockets is the folder of sockets, which is made.
	Sockets string
	// Program are the arguments by which this program calls [Main].
	Program []string
	// Data is the folder of the cache of data, and Limit the bytes that it may have. Empty:
	// the process fetches no data. 0: half of the disk.
	Data  string
	Limit int64
	// Trees are the folders of trees. Without a folder, no tree of the kind is fetched.
	Trees map[Kind]string
	// Pass passes requests on for data, code and environments that pods name; PassAhead passes
	// those on for parts that no pod names yet. Default of PassAhead: Pass.
	Pass, PassAhead Pass
	// Log receives the ends of the process. Default: discarded.
	Log *slog.Logger
}

// Fetcher is the agent's side. Its methods may be called at once, and before [Fetcher.Run].
type Fetcher struct {
	options  Options
	client   *http.Client
	requests *net.UnixListener
	upstream *upstream
	sockets  *os.File

	mu sync.Mutex
	// ended is the error by which the process ended, while it does not run.
	ended error
}

var hashes = regexp.MustCompile(`^[0-9a-f]{64}$`)

// New makes the folders and the sockets. [Fetcher.Run] starts the process.
func New(ctx context.Context, o Options) (*Fetcher, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.PassAhead == nil {
		o.PassAhead = o.Pass
	}
	f := &Fetcher{options: o, upstream: newUpstream(o)}
	if err := f.makeFolders(); err != nil {
		return nil, fmt.Errorf("making the folders of what is fetched: %w", err)
	}
	var err error
	if f.sockets, err = os.Open(o.Sockets); err != nil {
		return nil, fmt.Errorf("opening the folder of the fetcher's sockets: %w", err)
	}
	if f.requests, err = f.listen(ctx, fetcherSocket); err != nil {
		return nil, errors.Join(err, f.sockets.Close())
	}
	f.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", f.socket(fetcherSocket))
	}}}
	return f, nil
}

// socket returns the path of a socket. It is short, also for a deep folder: the kernel allows
// 107 bytes.
func (f *Fetcher) socket(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.sockets.Fd(), name)
}

// makeFolders makes the folder of sockets and the folders that the process writes to.
func (f *Fetcher) makeFolders() error {
	err := osfile.MakeFolder(f.options.Sockets, 0o711)
	for _, folder := range f.folders() {
		err = errors.Join(err, osfile.MakeFolder(folder.dir, 0o700))
	}
	return err
}

// folder is a folder that the process writes to.
type folder struct {
	kind Kind
	dir  string
}

// folders returns the folders that the options name.
func (f *Fetcher) folders() (all []folder) {
	if f.options.Data != "" {
		all = append(all, folder{parts, f.options.Data})
	}
	for _, kind := range []Kind{Code, Environments} {
		if dir := f.options.Trees[kind]; dir != "" {
			all = append(all, folder{kind, dir})
		}
	}
	return all
}

// listen makes a socket that the process may connect to, in the place of an earlier one.
func (f *Fetcher) listen(ctx context.Context, name string) (*net.UnixListener, error) {
	listener, err := func() (net.Listener, error) {
		if err := os.RemoveAll(filepath.Join(f.options.Sockets, name)); err != nil {
			return nil, err
		}
		return (&net.ListenConfig{}).Listen(ctx, "unix", f.socket(name))
	}()
	if err != nil {
		return nil, fmt.Errorf("listening for the fetcher: %w", err)
	}
	unix := listener.(*net.UnixListener)
	unix.SetUnlinkOnClose(false)
	path := filepath.Join(f.options.Sockets, name)
	if err := errors.Join(os.Chmod(path, 0o600), chownOne(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("listening for the fetcher: %w", err), unix.Close())
	}
	return unix, nil
}

// Key is the name of a part in a cache ([cache.Key]).
func (f *Fetcher) Key(ctx context.Context, p Part) (string, error) {
	defer f.upstream.serve(p.Namespace)()
	a, err := f.ask(ctx, pathKey, p, nil)
	if err == nil && !hashes.MatchString(a.Key) {
		err = fmt.Errorf("the fetcher answers with the key %q", printable(a.Key))
	}
	return a.Key, err
}

// Ensure fetches a part, as [Local.Ensure] does.
func (f *Fetcher) Ensure(ctx context.Context, p Part, spare *cache.Spare, progress func(data.Progress)) error {
	defer f.upstream.serve(p.Namespace)()
	_, err := f.ask(ctx, pathEnsure, ensureRequest{Part: p, Spare: spare}, progress)
	return err
}

// Path is the folder of an entry of the cache, by its scoped key, and counts as a use of it.
// It is false if the entry is not whole, or the process does not answer. The caller opens the
// folder without following links ([osfile.OpenFolder]).
func (f *Fetcher) Path(ctx context.Context, key string) (string, bool) {
	a, err := f.ask(ctx, pathCached, cachedRequest{Key: key}, nil)
	if err != nil {
		f.options.Log.Warn("asking whether data is on the node", "error", err)
	}
	return cache.Place(f.options.Data, key), err == nil && a.Cached && hashes.MatchString(key)
}

// Disk is the size of the cache's file system, in bytes.
func (f *Fetcher) Disk() (int64, error) {
	all, _, err := osfile.Space(f.options.Data)
	if err != nil {
		return 0, fmt.Errorf("asking how much room there is in %s: %w", f.options.Data, err)
	}
	return all, nil
}

// Trees returns the part of the fetcher that fetches trees of a kind.
func (f *Fetcher) Trees(kind Kind) Trees { return Trees{fetcher: f, kind: kind} }

// Trees fetches trees of one kind.
type Trees struct {
	fetcher *Fetcher
	kind    Kind
}

// Fetch lays a namespace's tree out as the new folder dst, which is <namespace>/<name> below
// the folder of the kind: all of it or none, verified against its digest.
func (t Trees) Fetch(ctx context.Context, namespace, digest, dst string) error {
	if dst != filepath.Join(t.fetcher.options.Trees[t.kind], namespace, filepath.Base(dst)) {
		return fmt.Errorf("fetching to %s: it is no folder of namespace %s below %s", dst, namespace, t.fetcher.options.Trees[t.kind])
	}
	defer t.fetcher.upstream.serve(namespace)()
	_, err := t.fetcher.ask(ctx, pathTree, treeRequest{Kind: t.kind, Namespace: namespace, Digest: digest, Name: filepath.Base(dst)}, nil)
	return err
}

// ask sends a request to the process, and returns its last answer.
func (f *Fetcher) ask(ctx context.Context, path string, question any, progress func(data.Progress)) (answer, error) {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended != nil {
		return answer{}, fmt.Errorf("asking the fetcher, which is started again: %w", ended)
	}
	text, err := json.Marshal(question)
	if err != nil {
		return answer{}, fmt.Errorf("asking the fetcher: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fetcher"+path, bytes.NewReader(text))
	if err != nil {
		return answer{}, fmt.Errorf("asking the fetcher: %w", err)
	}
	got, err := f.client.Do(request)
	if err != nil {
		return answer{}, lost(ctx, err)
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(got.Body, 4096)) // a part will do
		return answer{}, fmt.Errorf("asking the fetcher: it answers %s: %s", got.Status, printable(strings.TrimSpace(string(said))))
	}
	return last(ctx, got.Body, progress)
}

// last reads answers until the last one, and returns that.
func last(ctx context.Context, from io.Reader, progress func(data.Progress)) (answer, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, mostAnswer)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return answer{}, fmt.Errorf("reading the answer of the fetcher: %w", err)
		}
		switch {
		case a.Error != nil:
			return answer{}, a.Error.err()
		case a.Done:
			return a, nil
		case a.Progress != nil && progress != nil:
			progress(*a.Progress)
		}
	}
	return answer{}, lost(ctx, lines.Err())
}

// lost returns the error of an incomplete answer. It never says that data is missing.
func lost(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return errors.New("the fetcher ended before it was done")
	}
	return errors.New("asking the fetcher: " + err.Error()) // a missing socket is not missing data
}
