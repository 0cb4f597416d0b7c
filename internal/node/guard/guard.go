package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Options says what is guarded, and from whom.
type Options struct {
	// Level says which devices are guarded.
	Level Level
	// Groups are the guarded control groups, relative to the root of version 2. A group that is not
	// there yet is guarded once it is. Empty: DefaultGroups.
	Groups []string
	// Kept returns the processes of Muster, which are moved out of the guarded groups. Nil: none.
	Kept func() []int
	// Log is told what goes wrong in Run. Nil: nothing.
	Log *slog.Logger

	// ranges replaces the devices of the level, for tests.
	ranges []Range
}

// Guard is the filter of one Muster. Its methods may be called concurrently.
type Guard struct {
	options Options
	mount   string

	mu       sync.Mutex
	closed   bool
	ranges   []Range
	program  *ebpf.Program
	attached map[string]attachment
}

// attachment is the filter of one group.
type attachment struct {
	link  *link.RawLink
	group uint64 // the number of the group's folder
}

// lookEvery is the time between two looks at the groups and the numbers of devices.
const lookEvery = 2 * time.Second

// Open moves Muster's processes out of the guarded groups and attaches the filter.
func Open(o Options) (*Guard, error) {
	if len(o.Groups) == 0 {
		o.Groups = DefaultGroups
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := CheckGroups(o.Groups); err != nil {
		return nil, err
	}
	mount, err := unifiedMount()
	if err != nil {
		return nil, fmt.Errorf("guarding the GPUs: %w", err)
	}
	g := &Guard{options: o, mount: mount, attached: map[string]attachment{}}
	if err := g.refresh(); err != nil {
		return nil, errors.Join(fmt.Errorf("guarding the GPUs: %w", explain(err)), g.Close())
	}
	return g, nil
}

// Run keeps the filter in place until ctx ends. It logs each fault once.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		words := ""
		if err := g.refresh(); err != nil {
			words = err.Error()
		}
		if words != last && words != "" {
			g.options.Log.Warn("guarding the GPUs", "err", words)
		}
		last = words
	}
}

// refresh makes the filter agree with the machine: its drivers and its control groups.
func (g *Guard) refresh() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	// 1. The numbers of the devices.
	if err := g.renew(); err != nil {
		return err
	}
	// 2. The groups.
	var errs []error
	for _, group := range g.options.Groups {
		if err := g.attach(group); err != nil {
			errs = append(errs, fmt.Errorf("attaching the device filter to the control group %s: %w", group, err))
		}
	}
	return errors.Join(errs...)
}

// renew loads the program anew if the numbers of the devices have changed.
func (g *Guard) renew() error {
	ranges := g.options.ranges
	if ranges == nil {
		var err error
		if ranges, err = readRanges(g.options.Level); err != nil {
			return err
		}
	}
	if g.program != nil && slices.Equal(ranges, g.ranges) {
		return nil
	}
	program, err := load(ranges)
	if err != nil {
		return err
	}
	for group, a := range g.attached {
		if err := a.link.Update(program); err != nil {
			return errors.Join(fmt.Errorf("renewing the device filter of the control group %s: %w", group, err), program.Close())
		}
	}
	before := g.program
	g.program, g.ranges = program, ranges
	if before != nil {
		return before.Close()
	}
	return nil
}

// attach gives a group the filter, unless it has it.
func (g *Guard) attach(group string) error {
	folder, number, err := openGroup(g.mount, group)
	have, ok := g.attached[group]
	if ok && (err != nil || number != have.group) {
		_ = have.link.Close() // the group is gone, and its filter with it
		delete(g.attached, group)
		ok = false
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if ok {
		return nil
	}
	// Muster's own processes keep their GPUs. Those that they start later are where they are.
	if g.options.Kept != nil {
		if err := keepOut(g.mount, []string{group}, g.options.Kept()); err != nil {
			return err
		}
	}
	made, err := link.AttachRawLink(link.RawLinkOptions{Target: int(folder.Fd()), Program: g.program, Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return err
	}
	g.attached[group] = attachment{made, number}
	return nil
}

// Close detaches the filter. Without an error the machine is as it was.
func (g *Guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	var errs []error
	for group, a := range g.attached {
		if err := a.link.Close(); err != nil {
			errs = append(errs, fmt.Errorf("detaching the device filter from the control group %s: %w", group, err))
		}
		delete(g.attached, group)
	}
	if g.program != nil {
		errs = append(errs, g.program.Close())
		g.program = nil
	}
	return errors.Join(errs...)
}

// String describes the guard for `muster status`.
func (g *Guard) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var on, absent []string
	for _, group := range g.options.Groups {
		if _, ok := g.attached[group]; ok {
			on = append(on, group)
		} else {
			absent = append(absent, group)
		}
	}
	words := fmt.Sprintf("on (%s): programs in %s cannot %s", g.options.Level, strings.Join(on, ", "), deed(g.options.Level))
	if len(on) == 0 {
		words = fmt.Sprintf("on (%s)", g.options.Level)
	}
	if len(absent) > 0 {
		words += fmt.Sprintf("; waits for the control group %s", strings.Join(absent, ", "))
	}
	return words
}

func deed(level Level) string {
	if level == Compute {
		return "use CUDA"
	}
	return "open the GPUs"
}

// Available says whether this machine can guard its GPUs, and if not, why. It attaches a filter to a
// control group that it makes and removes.
func Available() (ok bool, reason string) {
	mount, err := unifiedMount()
	if err != nil {
		return false, err.Error()
	}
	if err := try(mount); err != nil {
		return false, explain(err).Error()
	}
	return true, ""
}

func try(mount string) (err error) {
	folder, err := os.MkdirTemp(mount, "muster-probe-")
	if err != nil {
		return fmt.Errorf("making a control group: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Rmdir(folder)) }()
	program, err := load([]Range{{nvidiaMajor, 0, lastGPU}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	group, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	made, err := link.AttachRawLink(link.RawLinkOptions{Target: int(group.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return fmt.Errorf("attaching a device filter: %w", err)
	}
	return made.Close()
}

// explain adds the cause that an administrator can remove.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		if os.Geteuid() != 0 {
			return fmt.Errorf("device filters need root, and this is user %d: %w", os.Geteuid(), err)
		}
		return fmt.Errorf("device filters need a root with CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN, and a control group in which no other program attached a filter for itself alone: %w", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the control groups are read-only here, as in a container: %w", err)
	case errors.Is(err, link.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("device filters need Linux 5.7 with CONFIG_CGROUP_BPF: %w", err)
	}
	return err
}
