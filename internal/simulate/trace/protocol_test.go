//go:build traces

package trace

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPhillyProtocol checks the real trace against what
// is known of it.
func TestPhillyProtocol(t *testing.T) {
	folder := os.Getenv("MUSTER_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared", "traces")
	}
	file, err := os.Open(filepath.Join(folder, "philly", "philly-2017-09-04-to-11-08.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	jobs, err := ReadPhilly("philly.csv", file, Window{
		From: time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC), To: time.Date(2017, 11, 9, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	large := 0
	for _, job := range jobs {
		if job.GPUs >= 8 {
			large++
		}
	}
	if len(jobs) != 40611 || large != 584 {
		t.Errorf("%d jobs, %d of them of 8 GPUs or more, want 40611 and 584", len(jobs), large)
	}
}
