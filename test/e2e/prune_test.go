//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestPruneTakesWhatNobodyUses runs two jobs, deletes one, and prunes: its code
// goes, the other's stays as it is, also while that job runs.
func TestPruneTakesWhatNobodyUses(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		ctx := deadline(t, 120*time.Second)
		run := func(name string, dir string, args ...string) {
			t.Helper()
			args = append([]string{"-n", ns, "run", "--name", name}, args...)
			expect(t, m.RunIn(ctx, dir, args...), 0)
		}
		script := "import helper, os, sys, time\nprint(helper.WORD + ' ran')\nwhile len(sys.argv) > 1 and not os.path.exists(sys.argv[1]): time.sleep(0.05)\n"
		stays := folder(t, map[string]string{"train.py": script, "helper.py": "WORD = 'stays " + ns + "'\n"})
		goes := folder(t, map[string]string{"train.py": script, "helper.py": "WORD = 'goes " + ns + "'\n"})
		release := filepath.Join(t.TempDir(), "release")
		run("goes", goes, "--", "python3", "train.py")
		run("stays", stays, "--detach", "--", "python3", "train.py", release)
		waitPhase(t, m, ns, "stays", v1alpha1.JobRunning)
		live, dead := job(t, m, ns, "stays").Status.CodeSnapshot, job(t, m, ns, "goes").Status.CodeSnapshot
		expect(t, m.Run(ctx, "delete", "goes", "-n", ns), 0)

		// What was stored just now may be about to be used.
		expect(t, m.Run(ctx, "prune", "--older-than", "0s"), 0, "kept for now", "code snapshot")
		for _, digest := range []string{live, dead} {
			long := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(treeOf(m, digest), long, long); err != nil {
				t.Fatal(err)
			}
		}
		before := contents(t, m)
		harness.Eventually(t, 20*time.Second, "waiting until the code of the deleted job may go", func() error {
			var report struct {
				FreedBytes int64
				Code       struct{ Removed []struct{ Name string } }
			}
			r := m.Run(ctx, "prune", "--older-than", "0s", "-o", "json")
			expect(t, r, 0)
			if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
				t.Fatalf("%v: %s", err, r.Stdout)
			}
			if strings.Contains(r.Stdout, live) {
				t.Fatalf("the code of a running job is among what went: %s", r.Stdout)
			}
			if !strings.Contains(r.Stdout, dead) || report.FreedBytes == 0 {
				return fmt.Errorf("%s", r.Stdout)
			}
			return nil
		})
		after := contents(t, m)
		if len(after) >= len(before) {
			t.Errorf("%d contents were stored before, %d are now", len(before), len(after))
		}

		// The other runs on, and again, and nothing is stored for it.
		if err := os.WriteFile(release, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		waitPhase(t, m, ns, "stays", v1alpha1.JobSucceeded)
		expect(t, m.Run(ctx, "-n", ns, "logs", "stays"), 0, "stays "+ns+" ran")
		expect(t, m.RunIn(ctx, stays, "-n", ns, "run", "--name", "again", "--", "python3", "train.py"), 0, "stays "+ns+" ran")
		if diff := cmp.Diff(after, contents(t, m)); diff != "" {
			t.Errorf("something was stored or removed (-before +after):\n%s", diff)
		}
		if again := job(t, m, ns, "again").Status.CodeSnapshot; again != live {
			t.Errorf("it ran %s, want %s", again, live)
		}
		// What went comes back from its folder.
		expect(t, m.RunIn(ctx, goes, "-n", ns, "run", "--name", "back", "--", "python3", "train.py"), 0, "goes "+ns+" ran")
	})
}

// treeOf is the file that a snapshot's age is read from.
func treeOf(m *harness.Muster, digest string) string {
	hash := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(m.Home, "code", "trees", hash[:2], hash)
}

// contents are the stored contents of files, with when each was written.
func contents(t testing.TB, m *harness.Muster) map[string]time.Time {
	t.Helper()
	found := map[string]time.Time{}
	err := filepath.WalkDir(filepath.Join(m.Home, "code", "blobs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			found[filepath.Base(path)] = info.ModTime()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
