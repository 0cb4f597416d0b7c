package posts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

const (
	// programFile is, in a post, the program that workers run.
	programFile = "muster-worker"
	// mostConnections is the number of connections of one post; a worker has about six.
	mostConnections = 64
	// headerTimeout and idleTimeout bound what a connection may wait for.
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
)

// Options are what posts need. All but Log are required.
type Options struct {
	// Dir is the folder of posts, which is root's. Users may enter the folders above it.
	Dir string
	// Worker is the program that workers run, on the file system of Dir.
	Worker string
	// Serve answers the workers of a namespace.
	Serve func(namespace string) http.Handler
	// Log receives what no caller can. Default: discarded.
	Log *slog.Logger
}

// Posts are those of the pods of this machine.
type Posts struct {
	options Options

	mu    sync.Mutex
	open  map[types.UID]map[string]*http.Server // by the volume's name
	group sync.WaitGroup
}

// New makes the folder of posts. [Posts.Close] ends their servers.
func New(o Options) (*Posts, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := enterable(o.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("making the folder of posts: %w", err)
	}
	return &Posts{options: o, open: map[types.UID]map[string]*http.Server{}}, nil
}

// works are the names of works, as Muster gives them to volumes.
var works = regexp.MustCompile(`^[a-z0-9][-a-z0-9]{0,99}\.[a-z0-9][-a-z0-9]{0,99}$`)

// Post implements volume.Stages. It may be called again.
func (p *Posts) Post(ctx context.Context, pod *corev1.Pod, volume, work string, user userfiles.User) (folder string, err error) {
	switch {
	case !works.MatchString(work):
		return "", fmt.Errorf("the attribute work is %q: give the name of a run and its stage, as Muster writes it", work)
	case strings.ContainsAny(string(pod.UID)+volume, "/.") || pod.UID == "" || volume == "":
		return "", fmt.Errorf("volume %q of pod %q: neither name may be empty or have a slash or a dot", volume, pod.UID)
	}
	folder = filepath.Join(p.options.Dir, string(pod.UID), volume)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[pod.UID][volume] != nil {
		return folder, nil
	}
	if err := p.furnish(folder, user); err != nil {
		return "", fmt.Errorf("making the post of work %s: %w", work, err)
	}
	listener, err := p.listen(ctx, folder, user)
	if err != nil {
		return "", fmt.Errorf("listening for the workers of %s: %w", work, err)
	}
	server := &http.Server{Handler: answer(p.options.Serve(pod.Namespace), pod.DeepCopy(), work), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	if p.open[pod.UID] == nil {
		p.open[pod.UID] = map[string]*http.Server{}
	}
	p.open[pod.UID][volume] = server
	p.group.Go(func() {
		if err := server.Serve(netutil.LimitListener(listener, mostConnections)); !errors.Is(err, http.ErrServerClosed) {
			p.options.Log.Error("workers of a stage cannot be served", "work", work, "error", err)
		}
	})
	return folder, nil
}

// enterable makes a folder of root's that all users may enter.
func enterable(folder string, mode fs.FileMode) error {
	if err := os.MkdirAll(folder, mode); err != nil {
		return err
	}
	return os.Chmod(folder, mode) // whatever the umask
}

// furnish puts the program and the token into a post. A pod that runs may be using it.
func (p *Posts) furnish(folder string, user userfiles.User) error {
	// A worker opens the post. The folder above it keeps its path from others.
	if err := errors.Join(enterable(filepath.Dir(folder), 0o711), enterable(folder, 0o755)); err != nil {
		return err
	}
	program := filepath.Join(folder, programFile)
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(p.options.Worker, program); err != nil {
		return err
	}
	// The folder is root's: no user can put another file here. Who the pod is the server knows, and the token
	// is there for who looks whether the post is.
	token := filepath.Join(folder, shift.TokenFile)
	if err := os.WriteFile(token, []byte("by this post"), 0o400); err != nil {
		return err
	}
	return os.Lchown(token, int(user.UID), int(user.GID))
}

// listen makes the socket of a post, for one user. It replaces an earlier one. No other user reaches the
// socket before it belongs to its user.
func (p *Posts) listen(ctx context.Context, dir string, user userfiles.User) (_ net.Listener, err error) {
	private, err := os.MkdirTemp(p.options.Dir, ".new-") // of mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	folder, err := os.Open(private)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	path := filepath.Join(private, shift.SocketFile)
	// The name is short however deep the folder is.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), shift.SocketFile))
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	err = errors.Join(os.Chmod(path, 0o600), os.Lchown(path, int(user.UID), int(user.GID)))
	if err == nil {
		err = os.Rename(path, filepath.Join(dir, shift.SocketFile))
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// answer hands on what a pod says about its own work, and says which pod it is.
func answer(to http.Handler, pod *corev1.Pod, work string) http.Handler {
	own := shift.Path + work
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != own && !strings.HasPrefix(r.URL.Path, own+"/") || strings.Contains(r.URL.Path, "..") {
			w.Header().Set(shift.Mark, "1")
			http.Error(w, "this is not the post of that work", http.StatusNotFound)
			return
		}
		door.Introduce(r.Header, pod, work)
		to.ServeHTTP(w, r)
	})
}

// Forget implements volume.Stages. It ends and removes the posts of a pod, also those of an earlier Muster.
func (p *Posts) Forget(pod types.UID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, server := range p.open[pod] {
		_ = server.Close() // the workers are gone
	}
	delete(p.open, pod)
	if pod == "" || strings.ContainsAny(string(pod), "/.") {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(p.options.Dir, string(pod))); err != nil {
		return fmt.Errorf("removing the posts of pod %s: %w", pod, err)
	}
	return nil
}

// Close ends all servers. The posts stay for the next Muster.
func (p *Posts) Close() {
	p.mu.Lock()
	for _, servers := range p.open {
		for _, server := range servers {
			_ = server.Close() // workers ask again
		}
	}
	clear(p.open)
	p.mu.Unlock()
	p.group.Wait()
}
