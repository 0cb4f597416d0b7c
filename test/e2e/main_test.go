//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// The Musters that tests share, one for each tier.
var (
	plainTier    = &tier{name: "plain", args: []string{"--tier", "plain", "--simulate-gpus", "4xA100,2xH100"}}
	isolatedTier = &tier{name: "isolated", args: []string{"--tier", "isolated", "--simulate-gpus", "4xA100,2xH100"}}
	tiers        = []*tier{plainTier, isolatedTier}
)

type tier struct {
	name string
	args []string

	once   sync.Once
	muster *harness.Muster
	err    error
}

// start returns the tier's Muster, started when first asked for.
func (x *tier) start(t testing.TB) *harness.Muster {
	t.Helper()
	x.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		// It outlives the test that happens to be the first.
		home, err := os.MkdirTemp("", "muster-"+x.name+"-") //nolint:usetesting // see above
		if err != nil {
			x.err = err
			return
		}
		if x.err = share(home); x.err != nil {
			return
		}
		x.muster, x.err = harness.Up(ctx, home, x.args...)
	})
	if x.err != nil {
		t.Fatalf("starting the %s tier: %v", x.name, x.err)
	}
	return x.muster
}

// environments is the folder of the environments of all Musters of these tests whose home
// shares it, those of other shards included: one with TensorFlow takes minutes to build. Each
// Muster builds what none has built before it.
var environments = sync.OnceValues(func() (string, error) {
	if shared := os.Getenv("MUSTER_TEST_SHARED"); shared != "" {
		dir := filepath.Join(shared, "environments")
		return dir, os.MkdirAll(dir, 0o755)
	}
	return os.MkdirTemp("", "muster-environments-")
})

// share has the Muster that will run in home keep environments where the others do.
func share(home string) error {
	dir, err := environments()
	if err != nil {
		return err
	}
	return os.Symlink(dir, filepath.Join(home, "environments"))
}

// TestMain stops the shared Musters at the end and fails the run if one of
// them left a process behind.
func TestMain(m *testing.M) {
	remove, err := harness.ShowTemporary()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	for _, x := range tiers {
		if x.muster == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		if err := x.muster.Down(ctx); err != nil {
			fmt.Printf("stopping the %s tier: %v\n", x.name, err)
			code = 1
		}
		cancel()
		_ = os.RemoveAll(x.muster.Home)
	}
	if dir, err := environments(); err == nil && os.Getenv("MUSTER_TEST_SHARED") == "" {
		_ = os.RemoveAll(dir)
	}
	remove()
	os.Exit(code)
}

// eachTier runs the test in both tiers.
func eachTier(t *testing.T, test func(t *testing.T, m *harness.Muster)) {
	t.Helper()
	inTiers(t, tiers, test)
}

func inTiers(t *testing.T, tiers []*tier, test func(t *testing.T, m *harness.Muster)) {
	t.Helper()
	for _, x := range tiers {
		t.Run(x.name, func(t *testing.T) { test(t, x.start(t)) })
	}
}

// long says that what takes long is to be done to the full: `make test-long`.
var long = os.Getenv("MUSTER_TEST_LONG") != ""

// costly are the tiers of a test that takes half a minute or more in each: one of them, and
// where there is time both.
func costly(one *tier) []*tier {
	if long {
		return tiers
	}
	return []*tier{one}
}

// isolated returns the Muster of the isolated tier.
func isolated(t testing.TB) *harness.Muster { return isolatedTier.start(t) }

// folder makes a code folder with these files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// deadline is a context that ends with the test or after d.
func deadline(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// expect fails the test unless the command ended with code and said each of
// the words.
func expect(t testing.TB, r harness.Result, code int, words ...string) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(r.Stdout+r.Stderr, word) {
			t.Errorf("nothing says %q\nstdout: %s\nstderr: %s", word, r.Stdout, r.Stderr)
		}
	}
}
