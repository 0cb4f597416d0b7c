package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// folder has the units of an administrator. Source: systemd.unit(5).
const folder = "/etc/systemd/system"

// ErrAbsent is the error for a machine whose service manager is not systemd.
var ErrAbsent = errors.New("systemd does not run on this machine")

// Manager is the service manager of a machine.
type Manager struct {
	// root is the folder of the machine's files: /, except in tests.
	root string
	// systemctl is the program that asks the service manager.
	systemctl string
}

// Open returns the service manager of this machine; [ErrAbsent] if it is another than systemd.
func Open() (*Manager, error) { return open("/") }

func open(root string) (*Manager, error) {
	// The rule of sd_booted(3).
	if info, err := os.Lstat(filepath.Join(root, "run/systemd/system")); err != nil || !info.IsDir() {
		return nil, ErrAbsent
	}
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return nil, fmt.Errorf("finding systemctl: %w", err)
	}
	return &Manager{root, systemctl}, nil
}

// File is the path of the unit.
func (m *Manager) File() string { return filepath.Join(m.root, folder, Name) }

// Install writes the unit, and has the service start with the machine. With now, the service starts at
// once. A service that runs goes on with its old program and arguments: changed reports whether the
// file has changed.
func (m *Manager) Install(ctx context.Context, u Unit, now bool) (changed bool, err error) {
	text, err := u.Text()
	if err != nil {
		return false, err
	}
	old, err := os.ReadFile(m.File())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading the unit: %w", err)
	}
	if changed = !bytes.Equal(old, []byte(text)); changed {
		if err := osfile.Replace(m.File(), []byte(text), 0o644); err != nil {
			return false, fmt.Errorf("writing the unit: %w", err)
		}
	}
	if err := m.ask(ctx, "daemon-reload"); err != nil {
		return changed, err
	}
	words := []string{"enable", Name}
	if now {
		words = []string{"enable", "--now", Name}
	}
	return changed, m.ask(ctx, words...)
}

// Remove stops the service and removes its unit; found is false if there is none. Jobs go on.
func (m *Manager) Remove(ctx context.Context) (found bool, err error) {
	if _, err := os.Lstat(m.File()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := m.ask(ctx, "disable", "--now", Name); err != nil {
		return true, err
	}
	if err := os.Remove(m.File()); err != nil {
		return true, fmt.Errorf("removing the unit: %w", err)
	}
	return true, m.ask(ctx, "daemon-reload")
}

// ask runs systemctl.
func (m *Manager) ask(ctx context.Context, words ...string) error {
	out, err := exec.CommandContext(ctx, m.systemctl, append([]string{"--no-ask-password"}, words...)...).CombinedOutput()
	if err == nil {
		return nil
	}
	if text := strings.Join(strings.Fields(string(out)), " "); text != "" {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(words, " "), err, text)
	}
	return fmt.Errorf("systemctl %s: %w", strings.Join(words, " "), err)
}
