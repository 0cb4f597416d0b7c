package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/claim"
	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/controlplane/pki"
	"github.com/muster-dev/muster/internal/osfile"
)

// ControlPlane is a running control plane: etcd, kube-apiserver and upstream's
// controllers.
type ControlPlane struct {
	options  Options
	order    contract.Order
	listener *net.TCPListener
	claim    *claim.Claim // on the range of Services
	set      *pki.Set
	settings settings
	admin    *rest.Config
	// manager and nodePart are admin where the control plane has one user.
	manager, nodePart *rest.Config
	node              NodeCredentials

	stopOnce sync.Once
	stopping chan struct{}
	done     chan struct{}
	// current and err are the supervising goroutine's until done is closed.
	mu      sync.Mutex
	current *child
	err     error
}

// Start starts the control plane and returns once the API server is ready,
// Muster's own kinds are served and the built-in objects exist. ctx bounds the
// start alone: afterwards the control plane runs until [ControlPlane.Stop], or
// until this process ends, in whatever way. The caller holds the data folder's
// lock ([Lock]).
//
// Errors say what to do: a port that is taken, a disk that is full or
// read-only, data that cannot be read. Data is never removed.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	c, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := rotate(o.logFile()); err != nil {
		return nil, errors.Join(err, c.close())
	}
	torn := tornLogs(o.DataDir)
	c.current, err = spawn(ctx, o, c.order, c.listener)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, err
	}
	if now := tornLogs(o.DataDir); len(now) > len(torn) {
		o.note(fmt.Sprintf("the end of etcd's log could not be read, as happens when the machine loses power, and was cut off; the log as it was is kept as %s", now[len(now)-1]))
	}
	go c.supervise()
	return c, nil
}

// prepare does all that comes before the child: folders, disk, range, port,
// certificates, files.
func prepare(ctx context.Context, o Options) (*ControlPlane, error) {
	for _, dir := range []string{o.DataDir, filepath.Join(o.DataDir, "etcd"), socketDir(o.DataDir)} {
		err := osfile.MakeFolder(dir, 0o700)
		if err == nil {
			err = os.Chmod(dir, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("preparing the data folder: %w", explain(err, o.DataDir))
		}
	}
	if err := checkDisk(o.DataDir, o.Bare); err != nil {
		return nil, err
	}
	last, err := loadSettings(o.DataDir)
	if err != nil {
		return nil, err
	}
	used, err := machineRanges()
	if err != nil {
		return nil, err
	}
	// The route that shows the range to other control planes comes seconds later.
	var held *claim.Claim
	chosen, note, err := last.chooseRange(o.ServiceCIDR, used, func(serviceRange string) bool {
		taken, err := claim.Take("muster-services/" + serviceRange)
		held = taken
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	o.note(note)
	c, err := prepareWith(ctx, o, last, chosen)
	if err != nil {
		return nil, errors.Join(err, held.Release())
	}
	c.claim = held
	return c, nil
}

// prepareWith does what comes after the choice of the range.
func prepareWith(ctx context.Context, o Options, last settings, chosen string) (*ControlPlane, error) {
	serviceIP, err := firstAddress(chosen)
	if err != nil {
		return nil, err
	}
	set, err := pki.Ensure(filepath.Join(o.DataDir, "pki"), serviceIP, time.Now(), o.Shared != nil)
	if err != nil {
		return nil, explain(err, o.DataDir)
	}
	// The child of a supervisor that was killed has the port, too, until it
	// ends: without the wait the port would be given up for another.
	if err := awaitOrphan(ctx, o.DataDir); err != nil {
		return nil, err
	}
	listener, note, err := listen(ctx, o.Port, last.Port)
	if err != nil {
		return nil, err
	}
	o.note(note)
	c := &ControlPlane{options: o, order: o.order(chosen), listener: listener, set: set, settings: last, stopping: make(chan struct{}), done: make(chan struct{})}
	if err := c.equip(set, chosen); err != nil {
		return nil, errors.Join(explain(err, o.DataDir), listener.Close())
	}
	return c, nil
}

// close closes the port and releases the claim on the range of Services.
func (c *ControlPlane) close() error { return errors.Join(c.listener.Close(), c.claim.Release()) }

// equip makes the credentials and writes the files that name the port.
func (c *ControlPlane) equip(set *pki.Set, serviceRange string) error {
	port := c.listener.Addr().(*net.TCPAddr).Port
	var err error
	if c.admin, err = restConfig(set, pki.Admin, fmt.Sprintf("https://127.0.0.1:%d", port)); err != nil {
		return err
	}
	c.manager, c.nodePart = c.admin, c.admin
	if c.options.Shared != nil {
		if c.manager, err = restConfig(set, pki.Manager, c.admin.Host); err != nil {
			return err
		}
		if c.nodePart, err = restConfig(set, pki.NodeClient, c.admin.Host); err != nil {
			return err
		}
	}
	if c.node, err = nodeCredentials(set); err != nil {
		return err
	}
	if err := writeFiles(c.options, c.order, set, c.admin); err != nil {
		return err
	}
	c.settings = settings{Port: port, ServiceCIDR: serviceRange, Shared: c.options.Shared != nil || c.settings.Shared}
	return c.settings.save(c.options.DataDir)
}

// rotate sets the last run's log aside.
func rotate(path string) error {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("setting the last run's log aside: %w", err)
	}
	return nil
}

// awaitReady waits until the first child is ready and has the manifests. After
// an error nothing runs any more.
func (c *ControlPlane) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := errors.New("the control plane's process ended")
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.current.exited:
			cancel(ended)
		case <-ctx.Done():
		}
	}()
	err := c.furnish(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	<-watched
	if err == nil {
		return nil
	}
	if errors.Is(cause, ended) {
		err = c.current.cause(c.options)
	} else {
		c.current.kill() // It loses nothing that was stored.
	}
	return errors.Join(fmt.Errorf("starting the control plane: %w", err), c.close())
}

// RESTConfig is the administrator's way to the API server, without a client's
// rate limit. The caller owns the copy.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig is the path of a kubeconfig for kubectl, context "muster",
// readable by its owner alone.
func (c *ControlPlane) Kubeconfig() string { return c.options.kubeconfig() }

// ServiceCIDR is the range of ClusterIPs.
func (c *ControlPlane) ServiceCIDR() string { return c.order.ServiceCIDR }

// NodeCredentials are for the node's kubelet API.
func (c *ControlPlane) NodeCredentials() NodeCredentials { return c.node }

// PID is the process id of the child that runs now, or ran last.
func (c *ControlPlane) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.cmd.Process.Pid
}

// Done is closed when the control plane has ended: by Stop, or because its
// process died more often than it was worth starting again. [ControlPlane.Err]
// tells which.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Err is nil until Done is closed and after an orderly stop; else it says why
// the control plane ended, with the end of its log, and what to do.
func (c *ControlPlane) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Stop stops the control plane in order, and kills it when ctx ends first;
// nothing that was stored is lost either way. It waits for the end, and may be
// called more than once.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { close(c.stopping) })
	c.mu.Lock()
	running := c.current
	c.mu.Unlock()
	err := running.stop(ctx)
	<-c.done
	return err
}

func (o Options) note(sentence string) {
	if sentence != "" {
		_, _ = fmt.Fprintln(o.Log, sentence)
	}
}
