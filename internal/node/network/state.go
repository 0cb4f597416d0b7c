package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/osfile"
)

// state is what must outlive a reboot: what was chosen, and what was changed
// on the machine and has to be put back.
type state struct {
	Bridge  string       `json:"bridge"`
	PodCIDR netip.Prefix `json:"podCIDR"`
	// Forwarding holds the uplinks whose forwarding was switched on here.
	Forwarding []string `json:"forwarding,omitempty"`
}

func statePath(dir string) string { return filepath.Join(dir, "network.json") }

// readState gives the zero state where none was written yet.
func readState(dir string) (state, error) {
	var s state
	if err := readJSON(statePath(dir), &s); err != nil {
		return state{}, fmt.Errorf("reading what the network remembers: %w", err)
	}
	return s, nil
}

func writeState(dir string, s state) error {
	if err := writeJSON(statePath(dir), s); err != nil {
		return fmt.Errorf("writing what the network remembers: %w", err)
	}
	return nil
}

// readJSON leaves value alone where the file does not exist.
func readJSON(path string, value any) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("%s: %w; delete the file to start afresh", path, err)
	}
	return nil
}

// writeJSON replaces the file, so that a crash and a loss of power leave the old
// or the new content: a part of it would keep the network from starting.
func writeJSON(path string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return osfile.Replace(path, raw, 0o600)
}
