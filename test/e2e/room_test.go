//go:build e2e && linux

package e2e

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/osfile/disktest"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestAFullDiskAllowsRemovals: data stops before Muster's own room is used up. On a disk
// that something else has filled to the last byte, up still starts: the data goes, and
// everything works again.
func TestAFullDiskAllowsRemovals(t *testing.T) {
	disk := disktest.New(t, "size=460m")
	ctx := deadline(t, 3*time.Minute)
	m, err := harness.Up(ctx, filepath.Join(disk, "home"), "--tier", "plain")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Abandon)
	expect(t, m.Run(ctx, "data", "create", "fill"), 0)
	stored := 0
	for ; stored < 12; stored++ {
		put := m.Command(ctx, "data", "put", "-", "fill:/f")
		put.Stdin = strings.NewReader(noise(stored))
		if r := harness.Finish(put); r.Code != 0 {
			expect(t, r, 1, "Muster keeps 128 MiB for itself", "muster data gc")
			break
		}
	}
	if stored < 2 || stored == 12 {
		t.Errorf("%d files of 30 MB were stored on a disk of 460 MiB", stored)
	}

	// 1. Something else takes the last byte.
	expect(t, m.Run(ctx, "down"), 0)
	filler, err := disktest.Fill(disk)
	if err != nil {
		t.Fatal(err)
	}

	// 2. Only removal works, and every command reports that.
	const words = "only removal works"
	expect(t, m.Run(ctx, "up", "--detach", "--tier", "plain"), 0, words)
	expect(t, m.Run(ctx, "status"), 0, words)
	expect(t, m.Run(ctx, "data", "create", "other"), 1, words)
	expect(t, m.Run(ctx, "run", "--", "python", "-c", "1"), 1, words)
	put := m.Command(ctx, "data", "put", "-", "fill:/g")
	put.Stdin = strings.NewReader("x")
	expect(t, harness.Finish(put), 1, words)

	// 3. Data goes, and room is back.
	expect(t, m.Run(ctx, "data", "rm", "fill:/f"), 0, "1 file removed")
	expect(t, m.Run(ctx, "data", "rm", "fill", "--yes"), 0)
	harness.Eventually(t, time.Minute, "gc frees the space of the dataset", func() error {
		r := m.Run(ctx, "data", "gc")
		if r.Code != 0 || !strings.Contains(r.Stdout, "; 0 B stay") {
			return errors.New(r.Stdout + r.Stderr)
		}
		return nil
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "everything works again", func() error {
		if r := m.Run(ctx, "status"); strings.Contains(r.Stdout, words) {
			return errors.New(r.Stdout)
		}
		return nil
	})
	expect(t, m.Run(ctx, "data", "create", "other"), 0)
	expect(t, m.Run(ctx, "down"), 0)
}

// noise is 30 MB that cannot be compressed, different for each seed.
func noise(seed int) string {
	out := make([]byte, 30_000_000)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(out) // never fails
	return string(out)
}
