package up

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// realGPUs is the value of --simulate-gpus that asks for the machine's own GPUs.
const realGPUs = "none"

// start is the outcome of flags, configuration file and last start.
type start struct {
	config configuration.Embedded
	// file is the configuration file that was named, now or last time; empty if none was.
	file string
	// choices are the flags that the next start uses.
	choices instance.Choices
	// notes are sentences for the user about flags that are as last time, and flags that are not.
	notes []string
}

// settle decides each setting: by a flag that is given now, else by the configuration file,
// else by the flag of the last start, else by the default.
func (o *options) settle(flags *pflag.FlagSet, home instance.Home) (start, error) {
	last, err := home.Choices()
	if err != nil {
		return start{}, exit.With(exit.Misuse, err)
	}
	var s start
	if err := o.load(&s, flags, home, last); err != nil {
		return start{}, exit.With(exit.Misuse, err)
	}
	var kept instance.Choices
	if s.choices.Config = s.file; !flags.Changed("config") {
		kept.Config = last.Config
	}
	if flags.Changed("port") {
		s.config.Port = o.port
	}
	tier := string(s.config.Tier)
	for _, one := range []setting{
		{"tier", "tier", o.tier, last.Tier, string(configuration.TierAuto), &tier, &s.choices.Tier, &kept.Tier},
		{"simulate-gpus", "simulateGPUs", o.simulate, last.SimulateGPUs, realGPUs, &s.config.SimulateGPUs, &s.choices.SimulateGPUs, &kept.SimulateGPUs},
		{"containerd", "containerd", o.socket, last.Containerd, configuration.DefaultContainerd, &s.config.Containerd, &s.choices.Containerd, &kept.Containerd},
		{"guard", "guard: devices", o.guard, last.Guard, configuration.GuardNone, &s.config.Guard.Devices, &s.choices.Guard, &kept.Guard},
	} {
		if note := one.settle(flags.Changed(one.flag)); note != "" {
			s.notes = append(s.notes, note)
		}
	}
	if s.config.Guard.Devices == configuration.GuardNone {
		s.config.Guard.Devices = ""
	}
	if s.config.Tier = configuration.Tier(tier); s.config.SimulateGPUs == realGPUs {
		s.config.SimulateGPUs = ""
	}
	if words := kept.Flags(); words != "" {
		s.notes = append(s.notes, fmt.Sprintf("as last time: %s (another value of a flag replaces it%s)", words, endings(kept)))
	}
	if err := s.config.Validate(); err != nil {
		return start{}, exit.With(exit.Misuse, err)
	}
	if _, err := gpu.ParseSimulated(s.config.SimulateGPUs); err != nil {
		return start{}, exit.With(exit.Misuse, err)
	}
	return s, nil
}

// setting is one flag, and the field of the configuration file for the same.
type setting struct {
	flag, field string
	// given and last are the values of the flag now and at the last start.
	given, last string
	// none is the value of the flag that asks for the default.
	none string
	// value is of the configuration, next for the next start; kept gets a value from the last start.
	value, next, kept *string
}

// settle decides the value, and returns a sentence if the configuration file has another one
// than the last start had.
func (s *setting) settle(changed bool) (note string) {
	switch {
	case changed:
		*s.value = s.given
		if s.given != s.none {
			*s.next = s.given
		}
	case s.last == "":
	case s.last == *s.value:
		*s.next, *s.kept = s.last, s.last
	default:
		return fmt.Sprintf("not as last time: the configuration file has %s: %q, the last start had --%s", s.field, *s.value, s.typed())
	}
	return ""
}

// typed is the flag of the last start as a user types it, without the dashes.
func (s *setting) typed() string {
	if s.flag == "guard" {
		return s.flag + "=" + s.last // its value may be left out, so it needs the "="
	}
	return s.flag + " " + s.last
}

// endings returns a phrase about the values that reset kept flags.
func endings(kept instance.Choices) string {
	words := instance.Choices{}
	if kept.Tier != "" {
		words.Tier = string(configuration.TierAuto)
	}
	if kept.SimulateGPUs != "" {
		words.SimulateGPUs = realGPUs
	}
	if kept.Guard != "" {
		words.Guard = configuration.GuardNone
	}
	if words == (instance.Choices{}) {
		return ""
	}
	return "; " + words.Flags() + " resets it"
}

// load reads the configuration file over the flags of the last start.
func (o *options) load(s *start, flags *pflag.FlagSet, home instance.Home, last instance.Choices) (err error) {
	if s.file = last.Config; flags.Changed("config") {
		s.file = o.config
	}
	path := home.Config()
	if s.file != "" {
		if s.file, err = filepath.Abs(s.file); err != nil {
			return fmt.Errorf("finding the configuration file: %w", err)
		}
		path = s.file
	}
	base := configuration.Default()
	if last.Tier != "" {
		base.Tier = configuration.Tier(last.Tier)
	}
	if last.SimulateGPUs != "" {
		base.SimulateGPUs = last.SimulateGPUs
	}
	if last.Containerd != "" {
		base.Containerd = last.Containerd
	}
	base.Guard.Devices = last.Guard
	s.config, err = configuration.LoadOver(base, path, s.file != "")
	if errors.Is(err, fs.ErrNotExist) && !flags.Changed("config") {
		return fmt.Errorf("%w (the last muster up named that file: give another with --config, or --config %s)", err, home.Config())
	}
	return err
}
