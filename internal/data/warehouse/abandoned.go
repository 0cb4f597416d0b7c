package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// abandonedKey is that of an empty object: when it was stored is since when the
// namespace is known not to be there.
const abandonedKey = "abandoned"

// clockKey is that of the object which collections put to know what time it is.
const clockKey = "clock"

// Abandon notes that a namespace is not there, and returns for how long that has
// been known, by the clock of where the data is.
func (w *Warehouse) Abandon(ctx context.Context, namespace string) (time.Duration, error) {
	objects, err := w.Objects(namespace)
	if err != nil {
		return 0, err
	}
	noted, err := objects.Stat(ctx, abandonedKey)
	if errors.Is(err, fs.ErrNotExist) {
		err = objects.Put(ctx, abandonedKey, nil)
		if err != nil {
			err = fmt.Errorf("noting that namespace %s is not there: %w", namespace, err)
		}
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	// What time it is there says what is stored there now.
	if err := objects.Put(ctx, clockKey, nil); err != nil {
		return 0, err
	}
	now, err := objects.Stat(ctx, clockKey)
	return now.Stored.Sub(noted.Stored), err
}

// Claim takes that note back: the namespace is there.
func (w *Warehouse) Claim(ctx context.Context, namespace string) error {
	objects, err := w.Objects(namespace)
	if err != nil {
		return err
	}
	_, err = objects.Stat(ctx, abandonedKey)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return objects.Delete(ctx, abandonedKey)
}

// Clear removes the last that is left of the store of a namespace once a collection
// has kept nothing there. Data that came meanwhile stays.
func (w *Warehouse) Clear(ctx context.Context, namespace string) error {
	objects, err := w.Objects(namespace)
	if err != nil {
		return err
	}
	if err := errors.Join(objects.Delete(ctx, clockKey), objects.Delete(ctx, abandonedKey)); err != nil {
		return fmt.Errorf("removing what is left of namespace %s: %w", namespace, err)
	}
	return nil
}
