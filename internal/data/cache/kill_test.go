package cache

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

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
)

// victimVariable names a folder: the test's program then is the one that is killed.
const victimVariable = "MUSTER_TEST_CACHE_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		if err := victim(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func inFolder(ctx context.Context, dir string) (*data.Dataset, func() error, error) {
	b, err := backend.OpenFolder(filepath.Join(dir, "bytes"))
	if err != nil {
		return nil, nil, err
	}
	heads, err := ref.OpenFolder(filepath.Join(dir, "heads"))
	if err != nil {
		return nil, nil, err
	}
	s, err := data.Open(ctx, data.Options{Backend: b})
	if err != nil {
		return nil, nil, err
	}
	return s.Dataset(heads), s.Close, nil
}

// victim fetches one branch after another, of which two have room, until it is
// killed.
func victim(ctx context.Context, dir string) error {
	d, _, err := inFolder(ctx, dir)
	if err != nil {
		return err
	}
	c, err := Open(Options{Dir: filepath.Join(dir, "cache"), Limit: 14 << 20})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		v, err := d.At(ctx, fmt.Sprint("b", i%3))
		if err != nil {
			return err
		}
		_, release, err := c.Ensure(ctx, v, "", nil)
		if err != nil {
			return err
		}
		release()
		fmt.Println(i)
	}
}

// TestRealKills: a process that fetches and removes is killed again and again; what
// the next one is given is what the commits hold.
func TestRealKills(t *testing.T) {
	dir := t.TempDir()
	d, closeStore, err := inFolder(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { must(t, closeStore()) })
	s := &shop{T: t, set: d, dir: filepath.Join(dir, "cache")}
	for i := range 3 {
		s.put(fmt.Sprint("b", i), many(uint64(100*i)))
	}
	self, err := os.Executable()
	must(t, err)
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), victimVariable+"="+dir)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n < round%4 && lines.Scan(); n++ {
		}
		<-time.After(time.Duration(round*5) * time.Millisecond) // somewhere in what it does next
		must(t, cmd.Process.Kill())
		for lines.Scan() {
		}
		if err := cmd.Wait(); err == nil || said.Len() > 0 {
			t.Fatalf("it was not killed: %v %s", err, said.String())
		}
		s.open(Options{Limit: 14 << 20})
		for _, e := range s.entries {
			if f, ok := s.Path(e.key); ok {
				if diff := cmp.Diff(e.files, int64(len(contents(t, f.Path)))); diff != "" {
					t.Errorf("round %d: it is said to be whole: %s", round, diff)
				}
			}
		}
		i := round % 3
		v, err := d.At(t.Context(), fmt.Sprint("b", i))
		must(t, err)
		_, release := s.want(v, "", many(uint64(100*i)))
		release()
		if sum := onDisk(t, s.dir); sum > 15<<20 {
			t.Errorf("round %d: %d bytes are on disk", round, sum)
		}
	}
}
