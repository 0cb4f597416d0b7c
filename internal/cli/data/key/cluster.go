package key

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/osfile"
)

// said gives what the manager says the exit code that it has on one machine, too.
func said(err error) error {
	if refused, is := errors.AsType[*visitor.Refused](err); is && refused.ByDoor && refused.Status == http.StatusNotFound {
		return exit.With(exit.Missing, err)
	}
	return err
}

// createThere has the manager make a key.
func (o *options) createThere(ctx context.Context, manager *visitor.Visitor, namespace string) error {
	var it Item
	if err := manager.MakeKey(ctx, namespace, o.life, &it); err != nil {
		return said(err)
	}
	if it.CABundle != "" {
		var err error
		if it.CABundleFile, err = o.keepBundle(it.CABundle); err != nil {
			return err
		}
	}
	return o.show(it)
}

// keepBundle writes what clients have to trust to a file, and returns its name.
func (o *options) keepBundle(bundle string) (string, error) {
	path, err := opening.ClusterFile(o.factory, "gateway.crt")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// In one step: others may be reading what is there.
	return path, osfile.Replace(path, []byte(bundle), 0o600)
}

func (o *options) listThere(ctx context.Context, manager *visitor.Visitor, namespace string) error {
	items := []Item{}
	if err := manager.Ask(ctx, namespace, "/keys", nil, &items); err != nil {
		return said(err)
	}
	return o.table(items, namespace)
}
