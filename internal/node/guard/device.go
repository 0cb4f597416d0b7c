package guard

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Level says which devices are guarded.
type Level string

// The levels.
const (
	// None guards nothing.
	None Level = "none"
	// GPUs refuses to open every GPU. nvidia-smi finds no GPU then, and `muster top` shows them.
	GPUs Level = "gpus"
	// Compute refuses CUDA alone. nvidia-smi works, and so do programs that draw.
	Compute Level = "compute"
)

// Levels are the values that ParseLevel accepts.
var Levels = []string{string(None), string(GPUs), string(Compute)}

// ParseLevel reads a level. Empty: none.
func ParseLevel(s string) (Level, error) {
	if s == "" {
		return None, nil
	}
	if !slices.Contains(Levels, s) {
		return None, fmt.Errorf("guard %q: allowed are %s", s, strings.Join(Levels, ", "))
	}
	return Level(s), nil
}

// Range is a range of character devices with one major number.
type Range struct{ Major, First, Last uint32 }

// NVIDIA's fixed numbers. The driver's other devices have the numbers that /proc/devices names.
const (
	nvidiaMajor = 195
	// lastGPU is the highest minor number of a GPU. 254 is nvidia-modeset, for screens, and 255 is
	// nvidiactl, which answers questions about the driver and opens no GPU.
	lastGPU = 253
)

// rangesOf returns the guarded devices of a level. Text is that of /proc/devices.
func rangesOf(level Level, text string) []Range {
	var ranges []Range
	if level == GPUs {
		ranges = append(ranges, Range{nvidiaMajor, 0, lastGPU})
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 0 && fields[0] == "Block" {
			break // a driver's block devices have numbers of their own
		}
		if len(fields) != 2 {
			continue
		}
		major, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || !guards(level, fields[1]) {
			continue
		}
		ranges = append(ranges, Range{uint32(major), 0, math.MaxUint32})
	}
	return ranges
}

// guards reports whether a level guards all devices of a driver. CUDA needs nvidia-uvm; the
// capabilities open parts of a GPU (MIG) and the memory of other machines (IMEX).
func guards(level Level, driver string) bool {
	switch driver {
	case "nvidia-uvm":
		return true
	case "nvidia-caps", "nvidia-caps-imex-channels":
		return level == GPUs
	}
	return false
}

// numbersPath lists the machine's drivers of devices.
const numbersPath = "/proc/devices"

func readRanges(level Level) ([]Range, error) {
	text, err := os.ReadFile(numbersPath)
	if err != nil {
		return nil, fmt.Errorf("reading the numbers of devices: %w", err)
	}
	return rangesOf(level, string(text)), nil
}
