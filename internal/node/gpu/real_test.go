//go:build gpu

package gpu

import (
	"path/filepath"
	"testing"
)

// TestRealGPU holds the sources against a machine's real devices, and against
// each other: go test -tags nvml,gpu -run TestRealGPU ./internal/node/gpu
func TestRealGPU(t *testing.T) {
	source, err := Open(t.Context(), Options{LockDir: filepath.Join(t.TempDir(), "locks")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	if source.Name() == "none" {
		for _, f := range Explain(t.Context(), Options{}) {
			t.Log(f)
		}
		t.Skip("this machine has no GPU that the driver shows")
	}
	devices, err := source.Devices(t.Context())
	if err != nil || len(devices) == 0 {
		t.Fatalf("%s shows %v, %v", source.Name(), devices, err)
	}
	samples, err := source.Sample(t.Context())
	if err != nil || len(samples) != len(devices) {
		t.Fatalf("%s samples %v, %v", source.Name(), samples, err)
	}
	for i, d := range devices {
		t.Logf("%s: %+v", source.Name(), d)
		t.Logf("%s: %+v", source.Name(), samples[i])
		switch {
		case d.UUID == "" || d.Model == "" || d.MemoryMiB < 1024 || d.Node == "" || d.Simulated:
			t.Errorf("device %d is incomplete: %+v", i, d)
		case samples[i].UUID != d.UUID:
			t.Errorf("sample %d is of %s, not of %s", i, samples[i].UUID, d.UUID)
		case samples[i].TemperatureC <= 0 || samples[i].TemperatureC > 120:
			t.Errorf("sample %d has %d degrees", i, samples[i].TemperatureC)
		}
	}
	other, err := openSMI(t.Context())
	if err != nil {
		t.Logf("not compared with nvidia-smi: %v", err)
		return
	}
	compared, err := other.Devices(t.Context())
	if err != nil || len(compared) != len(devices) {
		t.Fatalf("nvidia-smi shows %v, %v", compared, err)
	}
	for i, d := range devices {
		c := compared[i]
		if c.UUID != d.UUID || c.Model != d.Model || c.Index != d.Index || c.Node != d.Node || abs(c.MemoryMiB-d.MemoryMiB) > d.MemoryMiB/50 {
			t.Errorf("%s shows %+v and nvidia-smi %+v", source.Name(), d, c)
		}
		if told := other.(*smi).told(t.Context(), d.UUID); told != d.Node {
			t.Errorf("%s has the file %q, and %q as nvidia-smi tells it at length", d.UUID, d.Node, told)
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }
