package meter

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
)

// TestPartsAddUp shows two parts, of which each counts from nothing.
func TestPartsAddUp(t *testing.T) {
	m := New(io.Discard, "Putting")
	defer m.Stop()
	m.See(data.Progress{Files: 1, Bytes: 10})
	m.See(data.Progress{Files: 3, Bytes: 30, TotalBytes: 30})
	m.Next()
	m.See(data.Progress{Files: 2, Bytes: 5})
	if diff := cmp.Diff(data.Progress{Files: 5, Bytes: 35}, m.Done()); diff != "" {
		t.Error(diff)
	}
	m.Next()
	m.Next()
	if diff := cmp.Diff(data.Progress{Files: 5, Bytes: 35}, m.Done()); diff != "" {
		t.Error(diff)
	}
}
