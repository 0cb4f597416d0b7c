package gpu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
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

// ofMPS reports that a process is MPS's own: it computes on behalf of others.
func ofMPS(p Process) bool {
	program, _, _ := strings.Cut(p.Command, " ")
	return path.Base(program) == mpsServer
}

// UsedByOthers are the processes of a sample that use the device for
// themselves.
func (s Sample) UsedByOthers() []Process {
	var out []Process
	for _, p := range s.Processes {
		if !ofMPS(p) {
			out = append(out, p)
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
