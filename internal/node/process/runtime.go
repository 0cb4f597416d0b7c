package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// Options says where a Runtime keeps its containers and which shim it uses.
type Options struct {
	// Root is the folder that holds one folder a pod (<data>/pods).
	Root string
	// Shim is the path of the shim's binary.
	Shim string
	// Shared is true on a machine that several users share: a Spec without its user is refused.
	Shared bool
}

// Runtime starts and adopts containers.
type Runtime struct {
	root, shim, boot string
	shared           bool
	hierarchies      hierarchies

	mu      sync.Mutex
	closed  bool
	closers map[*Process]func()
	tasks   sync.WaitGroup
}

// New returns a Runtime over a root folder, which it creates where missing.
func New(o Options) (*Runtime, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, fmt.Errorf("finding the folder of pods: %w", err)
	}
	// Mounts name folders by their real path.
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of pods: %w", err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, fmt.Errorf("finding the folder of pods: %w", err)
	}
	shim, err := filepath.Abs(o.Shim)
	if err != nil {
		return nil, fmt.Errorf("finding the shim: %w", err)
	}
	if err := unix.Access(shim, unix.X_OK); err != nil {
		return nil, fmt.Errorf("finding the shim %s: %w", shim, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("reading the boot id: %w", err)
	}
	return &Runtime{
		root: root, shim: shim, shared: o.Shared, boot: strings.TrimSpace(string(boot)),
		hierarchies: readHierarchies(), closers: map[*Process]func(){},
	}, nil
}

// Shared is that of the Options.
func (r *Runtime) Shared() bool { return r.shared }

// Close lets go of all containers, which live on, and waits for what the
// Runtime itself has under way. Their Done is closed no more; another Runtime
// may adopt them.
func (r *Runtime) Close() {
	r.mu.Lock()
	r.closed = true
	for _, closer := range r.closers {
		closer()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}

// errClosed says that Close was called.
var errClosed = errors.New("the runtime was closed")

// Start runs a container. It returns once the command has been executed, or a
// *StartError once it is known that it cannot be; then nothing is left of it.
// A ctx that ends meanwhile ends the container. Afterwards ctx means nothing.
func (r *Runtime) Start(ctx context.Context, s Spec) (*Process, error) {
	if err := errors.Join(validate(s), r.validateOwner(s)); err != nil {
		return nil, fmt.Errorf("starting container %q: %w", s.ID, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// 1. The folder, which also says that the container exists.
	p := newProcess(r, s, r.folder(s))
	if err := p.makeFolder(); err != nil {
		return nil, fmt.Errorf("starting container %s: %w", s.ID, err)
	}
	err := p.launch(ctx)
	if err == nil {
		return p, nil
	}
	// Nothing runs any more; nothing stays.
	if removeErr := p.Remove(); removeErr != nil {
		err = errors.Join(err, removeErr)
	}
	var start *StartError
	if errors.As(err, &start) {
		return nil, start
	}
	return nil, fmt.Errorf("starting container %s: %w", s.ID, err)
}

// launch starts the shim of a folder and waits for its command.
func (p *Process) launch(ctx context.Context) error {
	// 2. Control groups.
	groups, err := p.runtime.groupsOf(p.spec)
	if err != nil {
		return &StartError{Reason: ReasonLimits, Code: 128, Message: err.Error()}
	}
	p.identity.Groups = groups
	// 3. The shim, which waits for its order.
	shim, link, err := p.startShim()
	if err != nil {
		return err
	}
	// 4. Its identity is on disk before anything can run.
	p.identity.Boot, p.identity.PID = p.runtime.boot, shim.Pid
	stat, err := lineage.Read(shim.Pid)
	if err == nil {
		p.identity.StartTicks = stat.StartTicks
		err = writeJSON(filepath.Join(p.dir, contract.IdentityFile), p.identity)
	}
	if err == nil {
		err = link.send(contract.Order{HostPID: shim.Pid, Groups: groups, Processes: p.runtime.hierarchies.processLimit(p.spec)})
	}
	// 5. The start, or the reason why not.
	if err == nil {
		err = p.awaitStart(ctx, link)
	}
	if err == nil {
		err = p.runtime.watch(p, link, shim)
	}
	if err == nil {
		return nil
	}
	_ = shim.Kill()
	_, _ = shim.Wait()
	link.close()
	return errors.Join(err, p.purge())
}

// awaitStart waits for the first word of the shim.
func (p *Process) awaitStart(ctx context.Context, link *link) error {
	stop := context.AfterFunc(ctx, link.interrupt)
	defer stop()
	for {
		var reply contract.Reply
		err := link.receive(&reply)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("waiting for the shim: %w%s", err, p.shimLog())
		case reply.Exit != nil && reply.Exit.StartedAt.IsZero():
			return &StartError{Reason: reply.Exit.Reason, Code: reply.Exit.Code, Message: reply.Exit.Err}
		case reply.Exit != nil, reply.Started:
			if !stop() {
				return ctx.Err() // and link is interrupted for good
			}
			p.heard(reply)
			return nil
		}
	}
}

// startShim starts the shim in its own session, so that it outlives muster,
// and returns the connection on which it takes its order.
func (p *Process) startShim() (*os.Process, *link, error) {
	listener, err := p.listen()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = listener.Close() }()
	ours, theirs, err := pair()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = theirs.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	defer func() { _ = null.Close() }()
	output, err := os.OpenFile(filepath.Join(p.dir, contract.ShimLogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	defer func() { _ = output.Close() }()
	attr := &os.ProcAttr{
		Dir: "/",
		// The shim has little to do at a time; one processor keeps it small.
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{null, output, output, theirs, listener},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if p.spec.Isolation != nil {
		attr.Sys.Cloneflags = isolationFlags
	}
	shim, err := os.StartProcess(p.runtime.shim, []string{filepath.Base(p.runtime.shim), p.dir}, attr)
	if err == nil {
		return shim, ours, nil
	}
	ours.close()
	if p.spec.Isolation != nil && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL)) {
		return nil, nil, &StartError{Reason: ReasonIsolation, Code: 128, Message: fmt.Sprintf("namespaces cannot be made on this machine: %v", err)}
	}
	return nil, nil, fmt.Errorf("starting the shim: %w", err)
}

const isolationFlags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// IsolationAvailable says whether this machine lets the Runtime run isolated
// containers, and if not, why. It tries.
func (r *Runtime) IsolationAvailable(ctx context.Context) (ok bool, reason string) {
	name := "probe-" + strings.ToLower(rand.Text())
	spec := Spec{
		ID: name + "/isolation/0", PodUID: name, Container: "isolation",
		Argv: []string{r.shim}, Isolation: &Isolation{Hostname: "probe"},
	}
	if r.shared {
		uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
		spec.UID, spec.GID, spec.Owner = &uid, &gid, &Owner{Umask: 0o077}
	}
	p, err := r.Start(ctx, spec)
	if err != nil {
		return false, err.Error()
	}
	defer func() {
		_ = p.Kill(context.WithoutCancel(ctx))
		_ = p.Remove()
		_ = os.RemoveAll(filepath.Join(r.root, name))
	}()
	return true, ""
}

// validate refuses what has no meaning.
func validate(s Spec) error {
	for _, part := range []struct{ what, value string }{{"pod UID", s.PodUID}, {"container name", s.Container}} {
		if part.value == "" || part.value == "." || part.value == ".." || strings.ContainsAny(part.value, "/\x00\n") {
			return fmt.Errorf("the %s %q cannot be the name of a folder", part.what, part.value)
		}
	}
	if want := fmt.Sprintf("%s/%s/%d", s.PodUID, s.Container, s.Restart); s.ID != want || s.Restart < 0 {
		return fmt.Errorf("the ID is not %q, which its parts make", want)
	}
	for _, list := range [][]string{s.Argv, s.Env, {s.Dir}} {
		for _, text := range list {
			if strings.ContainsRune(text, 0) {
				return fmt.Errorf("a NUL byte is in %q", text)
			}
		}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		return fmt.Errorf("the working directory %q is not an absolute path", s.Dir)
	}
	if len(s.Argv) == 0 {
		return errors.New("no command was given")
	}
	return nil
}

// folder is where a container's folder is.
func (r *Runtime) folder(s Spec) string {
	return filepath.Join(r.root, s.PodUID, containersFolder, s.Container, fmt.Sprint(s.Restart))
}

// containersFolder holds the containers of a pod, beside what else its caller
// keeps for it.
const containersFolder = "containers"

func (p *Process) makeFolder() error {
	var err error
	for range 10 {
		if err = os.MkdirAll(filepath.Dir(p.dir), 0o700); err != nil {
			return err
		}
		// Remove of another restart may take the folder above away meanwhile.
		if err = os.Mkdir(p.dir, 0o700); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("it exists already in %s: %w", p.dir, err)
	}
	if err != nil {
		return err
	}
	err = os.Mkdir(p.LogDir(), 0o700)
	if err == nil {
		err = writeJSON(filepath.Join(p.dir, contract.SpecFile), p.spec)
	}
	if err != nil {
		_ = os.RemoveAll(p.dir)
	}
	return err
}

// shimLog quotes what the shim itself said, for errors.
func (p *Process) shimLog() string {
	data, err := os.ReadFile(filepath.Join(p.dir, contract.ShimLogFile))
	text := strings.TrimSpace(string(data))
	if err != nil || text == "" {
		return ""
	}
	const most = 500
	if len(text) > most {
		text = text[:most]
	}
	return ": " + text
}
