package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// Phase is how far an instance has come.
type Phase string

// The phases.
const (
	Starting Phase = "Starting"
	Ready    Phase = "Ready"
	Stopping Phase = "Stopping"
	Stopped  Phase = "Stopped"
	Failed   Phase = "Failed"
)

// State is what a running instance says of itself, kept in
// <home>/status.json.
type State struct {
	// PID and BootTicks identify the process: a process id alone may have been
	// given to another since.
	PID       int    `json:"pid"`
	BootTicks string `json:"bootTicks"`
	Phase     Phase  `json:"phase"`
	// Error says why the phase is Failed.
	Error   string    `json:"error,omitempty"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// LowRoom is the message that only removal works because the disk is almost full; empty if there
	// is space.
	LowRoom string `json:"lowRoom,omitempty"`
	// ReadySeconds is how long the start took.
	ReadySeconds float64 `json:"readySeconds,omitempty"`
	Server       string  `json:"server,omitempty"`
	Node         string  `json:"node,omitempty"`
	Tier         string  `json:"tier,omitempty"`
	// TierReason says why it is not the stronger one.
	TierReason string `json:"tierReason,omitempty"`
	GPUSource  string `json:"gpuSource,omitempty"`
	// Images says what runs images, or why nothing does.
	Images string `json:"images,omitempty"`
	// Mapped are the patterns of images that are mapped to programs of this machine.
	Mapped []string `json:"mapped,omitempty"`
	// Containerd is the socket of the containerd that was to do it, or none.
	Containerd string `json:"containerd,omitempty"`
	// Guard says from whom the GPUs are guarded; empty where they are not.
	Guard string `json:"guard,omitempty"`
	// S3 is where S3 clients find datasets; empty where they are not served.
	S3 string `json:"s3,omitempty"`
	// PodS3 is the address for pods of the isolated tier.
	PodS3 string `json:"podS3,omitempty"`
	// Console is where browsers find the console of a Muster that several users share; empty where
	// there is none, for the reason NoConsole. They are part of answers, and not of the file.
	Console   string `json:"console,omitempty"`
	NoConsole string `json:"noConsole,omitempty"`
	// Settings is the configuration file that was named at the start; empty if
	// none was.
	Settings string `json:"settings,omitempty"`
}

// Home is a data folder.
type Home string

func (h Home) file() string { return filepath.Join(string(h), "status.json") }

// Log is the file that a detached instance writes to.
func (h Home) Log() string { return filepath.Join(string(h), "muster.log") }

// Config is the configuration file.
func (h Home) Config() string { return filepath.Join(string(h), "config.yaml") }

// Kubeconfig is the file by which clients find the API server.
func (h Home) Kubeconfig() string { return filepath.Join(string(h), "kubeconfig") }

// Write stores the state, atomically, with this process's identity.
func (h Home) Write(s State) error {
	s.PID = os.Getpid()
	s.BootTicks = bootTicks(s.PID)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	// A state that a loss of power cuts short would keep the next start from reading it.
	if err := osfile.Replace(h.file(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// Read returns the state last written, and whether its process lives. No state
// is no error: the zero State, false.
func (h Home) Read() (State, bool, error) {
	data, err := os.ReadFile(h.file())
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, fmt.Errorf("reading the state: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, false, fmt.Errorf("reading the state %s: %w", h.file(), err)
	}
	alive := s.BootTicks != "" && bootTicks(s.PID) == s.BootTicks
	return s, alive, nil
}

// Wait returns the state once done says so of it, or an error once ctx ends.
func (h Home) Wait(ctx context.Context, done func(s State, alive bool) bool) (State, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, alive, err := h.Read()
		if err != nil {
			return s, err
		}
		if done(s, alive) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-tick.C:
		}
	}
}

// Stop asks the instance to stop and waits until its process is gone, however
// long that takes until ctx ends. It reports whether there was one.
func (h Home) Stop(ctx context.Context) (bool, error) {
	s, alive, err := h.Read()
	if err != nil || !alive {
		return false, err
	}
	return terminate(ctx, s)
}
