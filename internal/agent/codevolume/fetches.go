package codevolume

import (
	"context"
	"fmt"
	"time"
)

// fetchWithin bounds one fetch, whoever waits for it.
const fetchWithin = time.Hour

// fetch has the tree of a volume. Who asked first may give up before it is there, and
// asks again later: it is fetched to its end all the same.
func (d *depot) fetch(ctx context.Context, v volume) error {
	if d.touch(v) {
		return nil
	}
	path := d.tree(v)
	err := d.errands.Do(ctx, path, func(life context.Context) error {
		if d.touch(v) {
			return nil
		}
		within, cancel := context.WithTimeout(life, fetchWithin)
		defer cancel()
		began := d.now()
		d.log.Info("fetching", "namespace", v.Namespace, "digest", v.Digest)
		err := d.fetcher.Fetch(within, v.Namespace, v.Digest, path)
		if err == nil {
			d.log.Info("fetched", "namespace", v.Namespace, "digest", v.Digest, "took", d.now().Sub(began))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fetching %s %s of namespace %s: %w", d.what(), v.Digest, v.Namespace, err)
	}
	return nil
}
