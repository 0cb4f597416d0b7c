package imagecheck

import (
	"os"
	"strings"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
)

// Machine knows which images the embedded Muster can run. The nil Machine stands for a cluster, where
// every image may run.
type Machine struct {
	mapped configuration.Images
	// unable is the reason why images that are not mapped cannot run; empty: they can.
	unable string
}

// Of returns the machine that commands use; nil if they use a cluster, or if no Muster runs.
func Of(f *connection.Factory) *Machine {
	home, embedded, err := f.EmbeddedHome()
	if err != nil || !embedded {
		return nil // the command itself reports the error
	}
	state, alive, err := instance.Home(home).Read()
	if err != nil || !alive {
		return nil // the command itself reports the error
	}
	m := &Machine{mapped: configuration.Images{}, unable: unable(state.Images, state.Containerd)}
	for _, pattern := range state.Mapped {
		m.mapped[pattern] = configuration.Image{Environment: configuration.HostEnvironment}
	}
	return m
}

// unable returns the reason of a Muster that runs no images; empty if it may run them.
func unable(images, socket string) string {
	why, none := strings.CutPrefix(images, "none: ")
	if !none {
		return ""
	}
	// containerd may have started since.
	if _, err := os.Stat(socket); err == nil && strings.Contains(why, socket) {
		return ""
	}
	return why
}

// Mapped reports whether an image stands for programs of the machine.
func (m *Machine) Mapped(image string) bool {
	if m == nil {
		return false
	}
	_, here := m.mapped.Find(image)
	return here
}

// Refusal returns the message for the first of some images that the machine cannot run, with what to
// do; empty if it can run all.
func (m *Machine) Refusal(images []string) string {
	if m == nil || m.unable == "" {
		return ""
	}
	for _, image := range images {
		if !m.Mapped(image) {
			return configuration.NotRun(image, m.unable)
		}
	}
	return ""
}
