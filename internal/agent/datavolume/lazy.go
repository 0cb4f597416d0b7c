package datavolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/agent/ondemand"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/door/visitor"
)

const (
	// handAgain is the pause between two who are handed mounts at one desk: a program
	// asks once in its life, and mounts are made and taken away for everybody who asks.
	handAgain = time.Second
	// handWithin is how long it may take whoever asks to take all of them.
	handWithin = 10 * time.Second
	// askersAtOnce is how many connections one pod may have, to ask for objects: a
	// program has twelve.
	askersAtOnce = 16
	// askedAtOnce is how many objects are asked for at once for all pods of a namespace.
	// The door has 64 places for what a node asks for one, and fetches need some.
	askedAtOnce = 32
	// headerBytes is more than programs ever say before what they ask for.
	headerBytes = 8 << 10
)

// desks are the folders by which the programs that serve mounts reach this agent, one
// for each pod that reads as it asks. See package ondemand.
type desks struct {
	// dir has a folder for each, by the handle of its volume.
	dir string
	o   *Options
	// program is the path of the program that pods run.
	program string
	// mounts are the volumes that a pod's program is to serve.
	mounts func(pod string) []volume
	// known says whether there is a record of a volume.
	known func(handle string) bool

	mu   sync.Mutex
	open map[string][]interface{ Close() error }
	// asked has a place for each object that is asked for, by namespaces.
	asked map[string]chan struct{}
	group sync.WaitGroup
}

// ending is a context that is closed like what it is for.
type ending context.CancelFunc

// Close ends it.
func (e ending) Close() error {
	e()
	return nil
}

func newDesks(dir string, o *Options, l *ledger) (*desks, error) {
	d := &desks{dir: filepath.Join(dir, "desks"), o: o, open: map[string][]interface{ Close() error }{}, asked: map[string]chan struct{}{}}
	d.known = func(handle string) bool {
		_, known := l.get(handle)
		return known
	}
	d.mounts = func(pod string) (all []volume) {
		records := l.with("")
		for _, handle := range slices.Sorted(maps.Keys(records)) {
			if v := records[handle]; v.Lazy && v.Pod == pod {
				all = append(all, v)
			}
		}
		return all
	}
	if o.Program == nil {
		return d, nil
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of those who serve mounts: %w", err)
	}
	var err error
	d.program, err = o.Program(filepath.Join(dir, "bin"))
	return d, err
}

// mountable says why this node cannot show data before it was fetched; nil if it can.
func (d *desks) mountable() error {
	if d.program == "" {
		return errors.New("this agent has no program that serves mounts")
	}
	return mount.Available()
}

func (d *desks) folder(handle string) string { return filepath.Join(d.dir, handle) }

// begin answers at the desk of a volume, unless it does already.
func (d *desks) begin(ctx context.Context, handle string, v volume) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder := d.folder(handle)
	switch {
	case d.open[handle] != nil:
		return nil
	case !d.known(handle):
		return fmt.Errorf("volume %s was taken away meanwhile", handle)
	}
	if err := d.furnish(folder); err != nil {
		return fmt.Errorf("making the folder of those who serve mounts: %w", err)
	}
	attach, err := inline.Listen(ctx, "unixpacket", folder, ondemand.AttachSocket)
	if err != nil {
		return fmt.Errorf("listening for who serves mounts: %w", err)
	}
	listener, err := inline.Listen(ctx, "unix", folder, ondemand.ObjectsSocket)
	if err != nil {
		return errors.Join(fmt.Errorf("listening for who serves mounts: %w", err), attach.Close())
	}
	listener = netutil.LimitListener(listener, askersAtOnce)
	server := &http.Server{Handler: d.objects(v), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: headerBytes}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // longer than that of the request
	d.open[handle] = []interface{ Close() error }{ending(end), attach, server}
	d.group.Go(func() { d.hand(life, attach, v) })
	d.group.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.o.Log.Error("who serves mounts cannot be answered", "pod", v.Pod, "error", err)
		}
	})
	return nil
}

// furnish puts the program into a desk, which whoever the pod runs as may run.
func (d *desks) furnish(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	program := filepath.Join(folder, ondemand.ProgramFile)
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.Link(d.program, program), os.Chmod(folder, 0o755))
}

// objects hands on what is asked for of the store of the pod's namespace, and nothing
// else that a pod says.
func (d *desks) objects(v volume) http.Handler {
	d.asked[v.Namespace] = cmp.Or(d.asked[v.Namespace], make(chan struct{}, askedAtOnce))
	places := d.asked[v.Namespace]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, is := strings.CutPrefix(r.URL.Path, ondemand.ObjectsPath)
		kind := data.KindOf(key)
		if !is || r.Method != http.MethodGet && r.Method != http.MethodHead || kind != data.PackObject && kind != data.CommitObject {
			http.Error(w, "packs and commits are read here, and nothing else", http.StatusBadRequest)
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-r.Context().Done():
			return
		}
		d.o.Pass(w, visitor.Bare(r), v.Namespace, "/data/"+key)
	})
}

// hand hands out what the pod's program is to serve, to one after the other, until its
// life or that of the listener ends.
func (d *desks) hand(life context.Context, listener net.Listener, v volume) {
	for life.Err() == nil {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // as when too much is open
			d.o.Log.Error("who serves mounts cannot be answered; trying again", "pod", v.Pod, "error", err)
		} else if err := d.handTo(life, conn.(*net.UnixConn), v.Pod); err != nil && life.Err() == nil {
			d.o.Log.Error("handing a pod its mounts", "pod", v.Pod, "error", err)
		}
		timer := time.NewTimer(handAgain)
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
		}
	}
}

// handTo hands a pod's mounts to who has connected, who need not be patient, nor polite.
func (d *desks) handTo(life context.Context, conn *net.UnixConn, pod string) error {
	stop := context.AfterFunc(life, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	if err := conn.SetWriteDeadline(time.Now().Add(handWithin)); err != nil {
		return fmt.Errorf("handing mounts over: %w", err)
	}
	return d.attach(conn, pod)
}

// attach mounts what a pod reads as it asks, and hands out the devices. What was mounted
// for a program that is gone is taken away.
func (d *desks) attach(conn *net.UnixConn, pod string) error {
	all := d.mounts(pod)
	for i, v := range all {
		a := ondemand.Attached{Commit: v.Commit, Path: v.Path, Words: v.called(), More: len(all) - 1 - i}
		device, err := d.mount(v.Target)
		if err != nil {
			a.Error = err.Error()
		}
		sent := ondemand.Send(conn, a, device)
		if device != nil {
			sent = errors.Join(sent, device.Close())
		}
		if err := errors.Join(err, sent); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts at the target of a volume.
func (d *desks) mount(target string) (*os.File, error) {
	if err := mount.Abandon(target); err != nil {
		return nil, err
	}
	return mount.Attach(target)
}

// end closes the desk of a volume, if it has one.
func (d *desks) end(handle string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove(handle)
}

// remove closes a desk and removes its folder. The lock is held.
func (d *desks) remove(handle string) error {
	d.close(handle)
	if err := os.RemoveAll(d.folder(handle)); err != nil {
		return fmt.Errorf("removing the folder of those who serve mounts: %w", err)
	}
	return nil
}

// close ends what answers at a desk. The lock is held.
func (d *desks) close(handle string) {
	for _, c := range d.open[handle] {
		_ = c.Close() // who asks there asks again
	}
	delete(d.open, handle)
}

// stop closes all desks, which stay where they are.
func (d *desks) stop() {
	d.mu.Lock()
	for handle := range d.open {
		d.close(handle)
	}
	d.mu.Unlock()
	d.group.Wait()
}

// sweep removes the desks of volumes that are forgotten: an agent was killed, or could
// not, after it forgot one.
func (d *desks) sweep() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("looking for the folders of those who serve mounts: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		if !d.known(e.Name()) {
			err = errors.Join(err, d.remove(e.Name()))
		}
	}
	return err
}

// tend answers at the desks that an earlier agent left, or that could not be answered at
// before, and removes those of nobody.
func (s *Server) tend(ctx context.Context) {
	if s.desks.program == "" {
		return
	}
	for handle, v := range s.ledger.with("") {
		if !v.Desk {
			continue
		}
		if err := s.desks.begin(ctx, handle, v); err != nil {
			s.options.Log.Error("who serves mounts cannot be answered; trying again", "pod", v.Pod, "error", err)
		}
	}
	if err := s.desks.sweep(); err != nil {
		s.options.Log.Error("desks of pods that are gone are left; trying again", "error", err)
	}
}

// showLater makes the place of a mount, which is there once the pod's program asks for
// what it is to serve.
func (s *Server) showLater(handle string, v volume) error {
	if err := s.desks.mountable(); err != nil {
		text := v.called() + ": it cannot be read as it is asked for on this node: " + err.Error()
		s.board.wait(v.Pod, handle, v1alpha1.DataUnfit, text)
		return errors.New(text)
	}
	// It may be mounted at this moment, and MkdirAll would ask whoever serves it.
	err := os.MkdirAll(filepath.Dir(v.Target), 0o755)
	if err == nil {
		err = os.Mkdir(v.Target, 0o755)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	return nil
}

// Hide ends a mount, by whomever it is served, and whoever waits for an answer is told:
// the program's device may live on elsewhere, and what looks into the mount would keep it,
// and with it the pod, for as long.
func (s *Server) Hide(handle, target string) error {
	if v, known := s.ledger.get(handle); known && v.Lazy {
		return mount.Abandon(target)
	}
	return nil
}

// showDesk has a pod's program see its desk.
func (s *Server) showDesk(ctx context.Context, handle string, v volume) error {
	if s.desks.program == "" {
		return s.desks.mountable()
	}
	if err := s.desks.begin(ctx, handle, v); err != nil {
		return err
	}
	return inline.Show(s.desks.dir, handle, v.Target, true)
}
