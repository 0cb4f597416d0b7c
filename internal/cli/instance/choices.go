package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// Choices are flags of `muster up` that the next start of the data folder uses, too, unless you
// give others. An empty field is a flag that was not given, or one that asked for the default. They
// are kept in <home>/flags.json.
type Choices struct {
	// Config is the absolute path of a configuration file.
	Config       string `json:"config,omitempty"`
	Tier         string `json:"tier,omitempty"`
	SimulateGPUs string `json:"simulateGPUs,omitempty"`
	Containerd   string `json:"containerd,omitempty"`
	Guard        string `json:"guard,omitempty"`
}

func (h Home) choices() string { return filepath.Join(string(h), "flags.json") }

// Choices returns the flags of the last start that became ready. A missing file is no error.
func (h Home) Choices() (Choices, error) {
	var c Choices
	data, err := os.ReadFile(h.choices())
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading the flags of the last start: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return Choices{}, fmt.Errorf("reading the flags of the last start, %s: %w: correct it, or remove it to start without them", h.choices(), err)
	}
	return c, nil
}

// WriteChoices stores the flags of a start if they differ from the stored ones.
func (h Home) WriteChoices(c Choices) error {
	if last, err := h.Choices(); err == nil && last == c {
		return nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the flags of this start: %w", err)
	}
	if err := osfile.Replace(h.choices(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the flags of this start: %w", err)
	}
	return nil
}

// Flags are the choices as a user types them.
func (c Choices) Flags() string {
	var flags []string
	for _, flag := range []struct{ name, value string }{
		{"config", c.Config}, {"tier", c.Tier}, {"simulate-gpus", c.SimulateGPUs}, {"containerd", c.Containerd},
	} {
		if flag.value != "" {
			flags = append(flags, "--"+flag.name+" "+flag.value)
		}
	}
	if c.Guard != "" {
		flags = append(flags, "--guard="+c.Guard) // its value may be left out, so it needs the "="
	}
	return strings.Join(flags, " ")
}
