package up

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/up/stores"
	"github.com/muster-dev/muster/internal/environment/source"
)

// TestHoldings: a Muster of one user has one store for all namespaces; one that several users
// share has one for each. Neither takes the data folder of the other.
func TestHoldings(t *testing.T) {
	open := func(home string, several bool) (*holdings, error) {
		m := &machine{home: instance.Home(home), shared: several, config: configuration.Default(), log: slog.New(slog.DiscardHandler)}
		kept, err := m.openHoldings()
		if err == nil {
			err = kept.open(t.Context())
			t.Cleanup(func() { _ = kept.close() })
		}
		return kept, err
	}
	for _, several := range []bool{false, true} {
		home := t.TempDir()
		kept, err := open(home, several)
		if err != nil {
			t.Fatal(err)
		}
		a, err := kept.data(t.Context(), "u-1000")
		if err != nil {
			t.Fatal(err)
		}
		b, err := kept.data(t.Context(), "u-1001")
		if err != nil || (a != b) != several {
			t.Errorf("shared: %v, stores of data differ: %v, %v", several, a != b, err)
		}
		if differ := kept.scope("u-1000") != kept.scope("u-1001"); differ != several {
			t.Errorf("shared: %v, caches differ: %v", several, differ)
		}
		if vault := kept.vault(nil) != nil; vault != several {
			t.Errorf("shared: %v, a vault of keys: %v", several, vault)
		}
		if kept.snapshots == nil || kept.sources == nil || (kept.door != nil) != several {
			t.Errorf("shared: %v, parts are missing: %+v", several, kept)
		}
		if _, err := kept.objects(); err != nil {
			t.Error(err)
		}
		if _, err := open(home, !several); !errors.Is(err, stores.ErrShared) && !errors.Is(err, stores.ErrOneUser) {
			t.Errorf("shared: %v, the other kind takes the data folder: %v", several, err)
		}
	}
}

// TestUpgradedHoldings: code of a Muster of one user is that of the owner after the upgrade.
func TestUpgradedHoldings(t *testing.T) {
	home, code := t.TempDir(), t.TempDir()
	m := &machine{home: instance.Home(home), config: configuration.Default(), log: slog.New(slog.DiscardHandler)}
	one, err := source.Open(m.path("code"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(code, "train.py"), []byte("print(1)"), 0o644); err != nil {
		t.Fatal(err)
	}
	result, err := one.Snapshot(t.Context(), code, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stores.Upgrade(home, "u-1000"); err != nil {
		t.Fatal(err)
	}
	m.shared = true
	kept, err := m.openHoldings()
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{"u-1000": true, "u-1001": false, "default": false} {
		err := kept.snapshots.Checkout(t.Context(), namespace, result.Digest, filepath.Join(t.TempDir(), "out"))
		if (err == nil) != want {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}
