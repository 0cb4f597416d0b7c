package foreman_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/foreman"
)

// TestFetchedAhead: a work says that there is something to compute once the files of a
// datum are there, and those of the next are fetched while it is computed.
func TestFetchedAhead(t *testing.T) {
	s, dir, held := open(t), t.TempDir(), make(chan struct{})
	begun, ahead := filepath.Join(dir, "begun"), filepath.Join(dir, "ahead")
	w, err := s.Open(t.Context(), foreman.Spec{
		Name: "run.stage", Tries: 1, Record: s.record,
		Program: shell(fmt.Sprintf(`
cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made
if [ "$(cat $MUSTER_INPUT_IN/name)" = first ]; then
	touch %s
	while [ ! -e %s ]; do sleep 0.01; done
fi`, begun, ahead)),
		Fetch: func(ctx context.Context, d foreman.Datum, folder *os.Root) error {
			if d.Name == "first" {
				select {
				case <-held:
				case <-ctx.Done():
				}
			} else if err := appears(ctx, begun); err != nil {
				return err
			} else if err := os.WriteFile(ahead, nil, 0o600); err != nil {
				return err
			}
			return s.fetch(ctx, d, folder)
		},
		Datums: []foreman.Datum{{ID: "0", Name: "first"}, {ID: "1", Name: "second"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.Status().Local {
		t.Error("nothing was fetched yet, and there is something to compute")
	}
	close(held)
	if err := s.worker(t.Context(), "0"); err != nil {
		t.Error(err)
	}
	if status := s.over(w); status.Computed != 2 {
		t.Errorf("%+v: %v", status, s.recorded)
	}
}

// appears waits until there is a file.
func appears(ctx context.Context, path string) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", path, fs.ErrNotExist)
		}
	}
}
