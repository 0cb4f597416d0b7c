package gpu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/gpu/product"
)

const (
	// procRoot is where processes and the driver describe themselves.
	procRoot = "/proc"
	// smiTimeout bounds one call of nvidia-smi. Without the persistence daemon
	// the driver initializes every device for it, a second or so each.
	smiTimeout = 20 * time.Second
	// migReason is why a partitioned device is not given out.
	migReason = "it is partitioned (MIG is on), and only whole GPUs are given out; \"nvidia-smi -mig 0\" as root switches that off"
)

// The columns that are asked for. Names come last, because they may contain
// commas.
var (
	gpuColumns     = []string{"index", "uuid", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu", "power.draw", "temperature.gpu", "mig.mode.current", "name"}
	processColumns = []string{"gpu_uuid", "pid", "used_memory", "process_name"}
)

// smi asks the nvidia-smi program.
type smi struct {
	proc string
	// root is where the files of the machine are whose program is asked, wherever the
	// driver has it then; empty: path is asked.
	root, path string
	// userName returns the login of a uid, and does not wait.
	userName func(uint32) string

	// mu guards files, the device files that the program told, by UUID.
	mu    sync.Mutex
	files map[string]string
}

func openSMI(ctx context.Context) (Source, error) { return openSMIIn(ctx, "", byNumber) }

func openSMIIn(ctx context.Context, root string, name func(uint32) string) (Source, error) {
	s := &smi{root: root, proc: procRoot, userName: name}
	if root == "" {
		var err error
		if s.path, err = exec.LookPath("nvidia-smi"); err != nil {
			return nil, fmt.Errorf("looking for nvidia-smi: %w", err)
		}
	}
	if _, err := s.Devices(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// within is the program as the driver has it in a machine's files, which it sees as
// its own.
func within(ctx context.Context, root, name string, args ...string) (*exec.Cmd, error) {
	d := driverOf(root)
	for _, tree := range d.first() {
		seen := filepath.Join("/", root, tree)
		path := programOf(seen, name)
		if path == "" {
			continue
		}
		command := exec.CommandContext(ctx, path, args...)
		if command.Env = os.Environ(); tree == d.tree {
			command.Env = append(command.Env, d.environ()...)
		}
		if seen != "/" {
			command.Dir, command.SysProcAttr = "/", &unix.SysProcAttr{Chroot: seen}
		}
		return command, nil
	}
	return nil, fmt.Errorf("looking for %s below %s: %w", name, root, exec.ErrNotFound)
}

// programOf is where a driver has a program of a name, below root; empty where it
// has none.
func programOf(root, name string) string {
	for _, folder := range programDirs {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return path
		}
	}
	return ""
}

func (s *smi) Name() string { return "nvidia-smi" }

func (s *smi) Close() error { return nil }

func (s *smi) Devices(ctx context.Context) ([]Device, error) {
	rows, err := s.gpus(ctx)
	if err != nil {
		return nil, err
	}
	devices := make([]Device, 0, len(rows))
	for _, r := range rows {
		if r.device.Node = s.node(r.bus); r.device.Node == "" {
			r.device.Node = s.told(ctx, r.device.UUID)
		}
		devices = append(devices, accessible(s.root, r.device))
	}
	return devices, nil
}

func (s *smi) Sample(ctx context.Context) ([]Sample, error) {
	rows, err := s.gpus(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.run(ctx, "--query-compute-apps="+strings.Join(processColumns, ","), asTable)
	if err != nil {
		return nil, err
	}
	processes := parseProcesses(out)
	samples := make([]Sample, 0, len(rows))
	for _, r := range rows {
		for _, p := range processes[r.sample.UUID] {
			r.sample.Processes = append(r.sample.Processes, describe(s.proc, s.userName, p))
		}
		r.sample.Processes = sortProcesses(r.sample.Processes)
		samples = append(samples, r.sample)
	}
	return samples, nil
}

func (s *smi) gpus(ctx context.Context) ([]gpuRow, error) {
	out, err := s.run(ctx, "--query-gpu="+strings.Join(gpuColumns, ","), asTable)
	if err != nil {
		return nil, err
	}
	return parseGPUs(out)
}

// asTable has the program write nothing but values and commas.
const asTable = "--format=csv,noheader,nounits"

// run calls the program and gives what it says.
func (s *smi) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	command, err := s.command(ctx, args)
	if err != nil {
		return "", err
	}
	command.Env = append(command.Env, "LC_ALL=C")
	// A driver that hangs holds the program in the kernel: do not wait for it.
	command.WaitDelay = time.Second
	var out, complaint bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaint
	err = command.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("running nvidia-smi: it gave no answer in %v; the driver may hang: %w", smiTimeout, ctx.Err())
	case err != nil:
		said := cmp.Or(strings.TrimSpace(complaint.String()), strings.TrimSpace(out.String()))
		return "", fmt.Errorf("running nvidia-smi: %w: %s", err, printable(strings.Join(strings.Fields(said), " ")))
	}
	return out.String(), nil
}

func (s *smi) command(ctx context.Context, args []string) (*exec.Cmd, error) {
	if s.root != "" {
		return within(ctx, s.root, "nvidia-smi", args...)
	}
	command := exec.CommandContext(ctx, s.path, args...)
	command.Env = os.Environ()
	return command, nil
}

// gpuRow is one line of nvidia-smi's table.
type gpuRow struct {
	device Device
	sample Sample
	bus    string
}

// parseGPUs reads the table of gpuColumns. Figures that the driver does not
// give ("[N/A]") are 0. A line that is not one is an error: half a list would
// look like devices that are gone.
func parseGPUs(out string) ([]gpuRow, error) {
	var rows []gpuRow
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "No devices were found") {
			continue
		}
		f := split(line, len(gpuColumns))
		if len(f) != len(gpuColumns) {
			return nil, fmt.Errorf("reading the list of nvidia-smi: the line %q has %d columns; %d were asked for", printable(line), len(f), len(gpuColumns))
		}
		index, err := strconv.Atoi(f[0])
		if err != nil || !strings.HasPrefix(f[1], "GPU-") {
			return nil, fmt.Errorf("reading the list of nvidia-smi: the line %q begins with no index and UUID", printable(line))
		}
		d := Device{Index: index, UUID: f[1], Product: printable(f[9]), Model: product.Model(f[9]), MemoryMiB: int64(number(f[3]))}
		switch {
		case f[8] == "Enabled":
			d.Unhealthy = migReason
		case d.MemoryMiB == 0:
			d.Unhealthy = fmt.Sprintf("the driver does not give its memory size (%s)", printable(f[3]))
		}
		rows = append(rows, gpuRow{device: d, bus: f[2], sample: Sample{UUID: d.UUID, MemoryUsedMiB: int64(number(f[4])),
			UtilizationPercent: int(number(f[5])), PowerWatts: int(number(f[6])), TemperatureC: int(number(f[7]))}})
	}
	slices.SortFunc(rows, func(a, b gpuRow) int { return cmp.Compare(a.device.Index, b.device.Index) })
	return rows, nil
}

// parseProcesses reads the table of processColumns, by UUID of the device. A
// line without a PID says nothing and is left out.
func parseProcesses(out string) map[string][]Process {
	processes := map[string][]Process{}
	for line := range strings.Lines(out) {
		f := split(strings.TrimSpace(line), len(processColumns))
		if len(f) != len(processColumns) {
			continue
		}
		pid, err := strconv.Atoi(f[1])
		if err != nil || pid <= 0 {
			continue
		}
		p := Process{PID: pid, MemoryMiB: int64(number(f[2]))}
		if !strings.HasPrefix(f[3], "[") {
			p.Command = f[3]
		}
		processes[f[0]] = append(processes[f[0]], p)
	}
	return processes
}

func split(line string, columns int) []string {
	fields := strings.SplitN(line, ",", columns)
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}

// number is a figure, rounded, or 0 where the driver gives words instead, such
// as [N/A], [Not Supported] or [Unknown Error].
func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > math.MaxInt32 {
		return 0
	}
	return math.Round(v)
}

// node finds the device file of the device at a PCI address, which the driver
// tells in /proc: its number need not be the index.
func (s *smi) node(bus string) string {
	// nvidia-smi writes an eight-digit domain in capitals, the kernel four
	// digits in small letters.
	bus = strings.ToLower(bus)
	if domain, rest, ok := strings.Cut(bus, ":"); ok && len(domain) == 8 {
		bus = domain[4:] + ":" + rest
	}
	raw, err := os.ReadFile(filepath.Join(s.proc, "driver/nvidia/gpus", filepath.Base(bus), "information"))
	if err != nil {
		return ""
	}
	return numbered(string(raw), "Device Minor")
}

// told is the device file of a device as the program tells it, at length, which
// takes a while: for machines whose /proc says nothing of the driver. An answer
// stands.
func (s *smi) told(ctx context.Context, uuid string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if file, asked := s.files[uuid]; asked {
		return file
	}
	out, err := s.run(ctx, "--query", "--id="+uuid)
	if err != nil {
		return ""
	}
	if s.files == nil {
		s.files = map[string]string{}
	}
	s.files[uuid] = numbered(out, "Minor Number")
	return s.files[uuid]
}

// numbered is the device file whose number a text has under a key.
func numbered(text, key string) string {
	for line := range strings.Lines(text) {
		if k, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n >= 0 {
				return fmt.Sprintf("/dev/nvidia%d", n)
			}
		}
	}
	return ""
}

// accessible marks a device unhealthy whose file below root this user may not
// use.
func accessible(root string, d Device) Device {
	if d.Node == "" || d.Unhealthy != "" {
		return d
	}
	file := d.Node
	if root != "" {
		file = cmp.Or(DeviceFile(root, d.Node), d.Node)
	}
	if err := unix.Access(filepath.Join("/", root, file), unix.R_OK|unix.W_OK); err != nil {
		d.Unhealthy = fmt.Sprintf("%s cannot be used: %v", d.Node, err)
	}
	return d
}
