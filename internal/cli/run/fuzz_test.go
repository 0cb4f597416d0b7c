package run

import (
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/exit"
)

// FuzzParseGPUs: a number of GPUs or a share of one is within its limits, and is read as the same
// when it is written as an API object has it.
func FuzzParseGPUs(f *testing.F) {
	for _, text := range []string{"2", "A100:2", "A100,H100:250m", "0.25", "1000m", "0.0001", "1e9", "-1", "9999999999999999999", "A100:", "0.999999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		gpus, models, err := parseGPUs(text)
		if err != nil {
			if code, _ := exit.Of(err); code != exit.Misuse {
				t.Fatalf("%q: exit code %d: %v", text, code, err)
			}
			return
		}
		if gpus == nil {
			if len(models) > 0 {
				t.Fatalf("%q: no GPU of %q", text, models)
			}
			return
		}
		if milli := gpus.MilliValue(); milli < 1 || milli > 1024_000 || milli > 1000 && milli%1000 != 0 {
			t.Fatalf("%q is %d thousandths of a GPU", text, milli)
		}
		again, _, err := parseGPUs(gpus.String())
		if err != nil || again.Cmp(*gpus) != 0 {
			t.Fatalf("%q is %s, which is read as %s, %v", text, gpus, again, err)
		}
	})
}

// FuzzParseSpan: a duration is a whole number of seconds, at least one.
func FuzzParseSpan(f *testing.F) {
	for _, text := range []string{"4h", "2d12h", "-1d48h", "36500d2562047h", "1d1d", "0x1d", "+1d", "1ns", "1e3d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		span, err := parseSpan("--max-time", text)
		if err != nil {
			return
		}
		if span < time.Second || span%time.Second != 0 {
			t.Fatalf("%q is %s", text, span)
		}
		if again, err := parseSpan("--max-time", span.String()); err != nil || again != span {
			t.Fatalf("%q is %s, which is read as %s, %v", text, span, again, err)
		}
	})
}

// FuzzParseMemory: an amount is at least that of any process, and a GPU's at most that of a GPU.
func FuzzParseMemory(f *testing.F) {
	for _, text := range []string{"8Gi", "500Mi", "1", "-8Gi", "1e30", "8E", "99999999999999999999Ei", "0.5Gi"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if memory, err := parseGPUMemory(text, nil); err == nil && memory != nil && (memory.Value() < leastMemory || memory.Value() > mostGPUMemory) {
			t.Fatalf("%q is %d bytes of a GPU", text, memory.Value())
		}
		requests, err := parseRequests(text, text)
		for name, q := range requests {
			if err == nil && q.Sign() <= 0 {
				t.Fatalf("%q is %s of %s", text, &q, name)
			}
		}
	})
}
