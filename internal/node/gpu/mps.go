package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MPS is a control daemon of NVIDIA's Multi-Process Service that answers.
type MPS struct {
	// PipeDir is the folder of its sockets, as CUDA_MPS_PIPE_DIRECTORY names it.
	PipeDir string
}

// The variables of MPS.
const (
	mpsPipeVariable    = "CUDA_MPS_PIPE_DIRECTORY"
	mpsMemoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	mpsThreadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
)

// MPSVariables are the variables by which a container is kept to its part.
func MPSVariables() []string {
	return []string{mpsPipeVariable, mpsMemoryVariable, mpsThreadsVariable}
}

const (
	// defaultPipeDir is where the daemon puts its sockets unless told otherwise.
	defaultPipeDir = "/tmp/nvidia-mps"
	// mpsDriver is the first driver whose MPS limits the memory of a client
	// (CUDA 11.5).
	mpsDriver = 495
	// mpsPatience is how long the daemon may take to accept a connection.
	mpsPatience = time.Second
	// mpsServer is the program that computes on behalf of MPS's clients, who
	// are seen beside it.
	mpsServer = "nvidia-cuda-mps-server"
)

// FindMPS looks for a control daemon: in the folder that
// CUDA_MPS_PIPE_DIRECTORY names, else in the default one. Its error says in a
// few words why there is none.
func FindMPS(ctx context.Context) (*MPS, error) {
	dir := os.Getenv(mpsPipeVariable)
	if dir == "" {
		dir = defaultPipeDir
	}
	return findMPS(ctx, dir)
}

func findMPS(ctx context.Context, dir string) (*MPS, error) {
	socket := filepath.Join(dir, "control")
	if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no MPS daemon runs (there is no %s)", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, mpsPatience)
	defer cancel()
	// The daemon speaks in packets.
	connection, err := new(net.Dialer).DialContext(ctx, "unixpacket", socket)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("no MPS daemon runs (%s is left from one that ended)", socket)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("the MPS daemon at %s is not for this user", socket)
	case err != nil:
		return nil, fmt.Errorf("the MPS daemon does not answer: %w", err)
	}
	_ = connection.Close()
	return &MPS{PipeDir: dir}, nil
}

// Environ gives the variables that keep a container to its part of the only
// device that it sees: at most so much memory for each of its processes, and at
// most so many of the device's multiprocessors, to the next percent.
func (m *MPS) Environ(s Share) []Variable {
	return []Variable{
		{Name: mpsPipeVariable, Value: m.PipeDir},
		{Name: mpsMemoryVariable, Value: fmt.Sprintf("0=%dM", s.MemoryMiB)},
		{Name: mpsThreadsVariable, Value: strconv.FormatInt(min(100, max(1, (s.Milli+9)/10)), 10)},
	}
}

// ofMPS reports whether the process with this folder in /proc is a server of MPS. A program may
// call itself anything, so only its file counts: one of the name that no user but root can change.
// Where Muster may not see the file, the process has to be of root, or of the user who runs Muster.
func ofMPS(dir string) bool {
	file, err := os.Readlink(filepath.Join(dir, "exe"))
	if errors.Is(err, fs.ErrPermission) {
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		uid, known := realUser(dir)
		return known && (uid == 0 || uid == os.Getuid()) && strings.TrimSpace(string(comm)) == mpsServer[:commLength]
	}
	if err != nil || path.Base(file) != mpsServer {
		return false
	}
	var stat unix.Stat_t
	err = unix.Stat(filepath.Join(dir, "exe"), &stat)
	return err == nil && stat.Uid == 0 && stat.Mode&0o022 == 0
}

// commLength is the number of bytes of a program's name that the kernel keeps.
const commLength = 15

// realUser is the user of a process. The owner of its folder in /proc is root for some of other users.
func realUser(dir string) (uid int, known bool) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Uid:" {
			uid, err := strconv.Atoi(fields[1])
			return uid, err == nil
		}
	}
	return 0, false
}

// Holder is a container that has GPUs.
type Holder struct {
	// Name is that of its pod, with the namespace.
	Name string
	// Locks are the locks of its GPUs.
	Locks []string
}

// Outsiders are the processes that use a GPU for themselves and not as one of its holders, by
// the GPU's UUID: those of no container, and those of a container that has other GPUs, whose command
// begins with the name of its pod. Own are the processes of containers. A process that is not alive
// any more is left out.
func Outsiders(samples []Sample, own map[int]Holder, alive func(pid int) bool) map[string][]Process {
	out := map[string][]Process{}
	for _, s := range samples {
		lock := LockPath(s.UUID)
		for _, p := range s.Processes {
			holder, known := own[p.PID]
			if p.Server || slices.Contains(holder.Locks, lock) || !alive(p.PID) {
				continue
			}
			if known {
				p.Command = printable(fmt.Sprintf("pod %s, which was not given this GPU: %s", holder.Name, p.Command))
			}
			out[s.UUID] = append(out[s.UUID], p)
		}
	}
	return out
}

var driverPattern = regexp.MustCompile(`\b([0-9]{3,4})\.[0-9]+(\.[0-9]+)?\b`)

// DriverVersion is the version of the loaded driver, such as "535.129.03"; empty
// if there is none or it cannot be read.
func DriverVersion() string { return driverVersionAt("/") }

func driverVersionAt(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "proc/driver/nvidia/version"))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return driverPattern.FindString(first)
}

// limitsMemory reports that the driver's MPS limits the memory of its clients.
func limitsMemory(driver string) bool {
	major, _, _ := strings.Cut(driver, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= mpsDriver
}

// oldModels are those before Volta, on which MPS limits nothing.
var oldModels = regexp.MustCompile(`^(K[0-9]|M[0-9]|P[0-9]|GTX(6|7|9|10)|TITANX|TITANXP|TITANBLACK)`)

func beforeVolta(model string) bool { return oldModels.MatchString(model) }
