package gpu

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxSimulated is how many devices one machine may pretend to have.
const maxSimulated = 1024

// memoryMiB is the memory of well-known models, for simulated devices that do
// not say how much they have. Of a model with several sizes it is the largest.
var memoryMiB = map[string]int64{
	"T4": 16 << 10, "V100": 32 << 10, "P100": 16 << 10, "K80": 12 << 10,
	"A10": 24 << 10, "A30": 24 << 10, "A40": 48 << 10, "A100": 80 << 10, "A6000": 48 << 10,
	"L4": 24 << 10, "L40": 48 << 10, "L40S": 48 << 10,
	"H100": 80 << 10, "H200": 141 << 10, "GH200": 96 << 10, "B200": 180 << 10, "B300": 288 << 10, "GB200": 186 << 10,
	"RTX3090": 24 << 10, "RTX4090": 24 << 10, "RTX5090": 32 << 10,
}

// defaultMemoryMiB is for models that are not well known.
const defaultMemoryMiB = 16 << 10

var simulatedGroup = regexp.MustCompile(`^([0-9]+)x([A-Za-z][A-Za-z0-9]*)(?::([0-9]+)Gi)?$`)

// simulatedForm is what the errors of ParseSimulated say is allowed.
const simulatedForm = `write a number, an x and a model, such as "8xA100"; several kinds with commas, "4xA100,2xH100"; memory after a colon, "2xA100:40Gi"`

// ParseSimulated reads a declaration of pretend devices: groups such as
// "8xA100" or "2xA100:40Gi", joined by commas, at most 1024 devices in all.
// Without a memory size, well-known models have their largest, others 16Gi.
// The devices have indices and no UUIDs yet; the empty string gives none.
func ParseSimulated(declaration string) ([]Device, error) {
	var devices []Device
	if strings.TrimSpace(declaration) == "" {
		return nil, nil
	}
	for group := range strings.SplitSeq(declaration, ",") {
		group = strings.TrimSpace(group)
		match := simulatedGroup.FindStringSubmatch(group)
		if match == nil {
			return nil, fmt.Errorf("reading the simulated GPUs %q: %q is not understood; %s", declaration, group, simulatedForm)
		}
		count, err := strconv.Atoi(match[1])
		if err != nil || count < 1 || len(devices)+count > maxSimulated {
			return nil, fmt.Errorf("reading the simulated GPUs %q: %s devices were asked for in %q; 1 to %d in all are possible", declaration, match[1], group, maxSimulated)
		}
		model := strings.ToUpper(match[2])
		memory, known := memoryMiB[model]
		if !known {
			memory = defaultMemoryMiB
		}
		if match[3] != "" {
			gib, err := strconv.ParseInt(match[3], 10, 64)
			if err != nil || gib < 1 || gib > 4096 {
				return nil, fmt.Errorf("reading the simulated GPUs %q: %sGi of memory were asked for in %q; 1Gi to 4096Gi are possible", declaration, match[3], group)
			}
			memory = gib << 10
		}
		for range count {
			devices = append(devices, Device{Index: len(devices), Model: model, Product: "Simulated " + model, MemoryMiB: memory, Simulated: true})
		}
	}
	return devices, nil
}

// simulated pretends. Its devices are always idle: nothing runs on them.
type simulated struct{ devices []Device }

// newSimulated names the devices after host, scope and index, so that they are
// the same after a restart and different from everyone else's.
func newSimulated(declaration, host, scope string) (*simulated, error) {
	devices, err := ParseSimulated(declaration)
	if err != nil {
		return nil, err
	}
	for i := range devices {
		devices[i].UUID = simulatedUUID(host, scope, i)
	}
	return &simulated{devices: devices}, nil
}

func simulatedUUID(host, scope string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", host, scope, index))
	return fmt.Sprintf("GPU-sim-%x", sum[:8])
}

func (s *simulated) Name() string { return "simulated" }

func (s *simulated) Devices(context.Context) ([]Device, error) { return slices.Clone(s.devices), nil }

func (s *simulated) Sample(context.Context) ([]Sample, error) {
	samples := make([]Sample, 0, len(s.devices))
	for _, d := range s.devices {
		samples = append(samples, Sample{UUID: d.UUID})
	}
	return samples, nil
}

func (s *simulated) Close() error { return nil }

// none is the source of a machine without devices.
type none struct{}

func (none) Name() string                              { return "none" }
func (none) Devices(context.Context) ([]Device, error) { return nil, nil }
func (none) Sample(context.Context) ([]Sample, error)  { return nil, nil }
func (none) Close() error                              { return nil }
