package data

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/bucket/buckettest"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
)

// victimVariable names a folder: the test's program then is the one that is killed.
const victimVariable = "MUSTER_TEST_DATA_VICTIM"

func TestMain(m *testing.M) {
	buckettest.Become()
	if dir := os.Getenv(victimVariable); dir != "" {
		if err := victim(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if dir := os.Getenv(fullVariable); dir != "" {
		if err := onSmallDisk(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func inFolder(ctx context.Context, dir string) (*Dataset, error) {
	b, err := backend.OpenFolder(filepath.Join(dir, "bytes"))
	if err != nil {
		return nil, err
	}
	heads, err := ref.OpenFolder(filepath.Join(dir, "heads"))
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, Options{Backend: bale.Over(b), Cache: filepath.Join(dir, "cache"), LeaseTTL: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	s.slack, s.joining = 0, joining{small: 1 << 20, least: 1, full: 300_000, most: 9}
	return s.Dataset(heads), nil
}

// victim puts and collects until it is killed, and says what was acknowledged.
func victim(ctx context.Context, dir string) error {
	d, err := inFolder(ctx, dir)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		path := fmt.Sprintf("%d/%d", os.Getpid(), i)
		if _, err := d.Put(ctx, "main", Stream(path, strings.NewReader(noise(uint64(i), 10_000+i*37_000))), PutOptions{}); err != nil {
			return err
		}
		fmt.Println(path, i)
		if i%3 == 2 {
			if _, err := d.store.Collect(ctx, CollectOptions{Heads: []ref.Heads{d.heads}}); err != nil {
				return err
			}
		}
	}
}

// TestRealKills: a process that puts and collects is killed again and again, each
// time after it acknowledged another number of commits and a moment more.
func TestRealKills(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	want := map[string]string{}
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), victimVariable+"="+dir)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n < round%5 && lines.Scan(); n++ {
			acknowledged(t, want, lines.Text())
		}
		<-time.After(time.Duration(round*7) * time.Millisecond) // somewhere in what it does next
		must(t, cmd.Process.Kill())
		for lines.Scan() {
			acknowledged(t, want, lines.Text())
		}
		if err := cmd.Wait(); err == nil || said.Len() > 0 {
			t.Fatalf("it was not killed: %v %s", err, said.String())
		}
		d, err := inFolder(t.Context(), dir)
		must(t, err)
		report, err := d.store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{d.heads}, Bytes: true})
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("round %d: %+v %v", round, report, err)
		}
		if len(want) > 0 {
			got := held(t, d, "main")
			for path := range want {
				if got[path] != want[path] {
					t.Errorf("round %d: %s was acknowledged, and has %d bytes", round, path, len(got[path]))
				}
			}
		}
		must(t, d.store.Close())
	}
	if len(want) < 12 {
		t.Errorf("only %d commits were acknowledged", len(want))
	}
}

func acknowledged(t *testing.T, want map[string]string, line string) {
	t.Helper()
	var path string
	var i int
	if _, err := fmt.Sscan(line, &path, &i); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	want[path] = noise(uint64(i), 10_000+i*37_000)
}
