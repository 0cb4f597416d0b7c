package dataset

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

// AbandonedGrace is for how long the data of a namespace stays that is gone: one that
// was deleted by mistake, or is being brought back from a backup, finds it again.
const AbandonedGrace = 7 * 24 * time.Hour

// Stores are those of many namespaces.
type Stores interface {
	// Namespaces are those of which anything is kept.
	Namespaces(ctx context.Context) ([]string, error)
	// Collect makes one pass over the store of a namespace.
	Collect(ctx context.Context, namespace string, o data.CollectOptions) (data.CollectReport, error)
	// Abandon notes that a namespace is gone, and returns for how long that is known.
	Abandon(ctx context.Context, namespace string) (time.Duration, error)
	// Claim notes that a namespace is there.
	Claim(ctx context.Context, namespace string) error
	// Clear removes the notes of a store in which nothing is kept any more.
	Clear(ctx context.Context, namespace string) error
}

// Caretaker has the stores of all namespaces collect what nothing reaches, one after
// the other: in a cluster, where each has its own. Stores and Client are required.
type Caretaker struct {
	Stores Stores
	// Client reads from the API server itself: what a cache shows may be old.
	Client client.Reader
	// After is an alarm. Default: [time.After].
	After func(time.Duration) <-chan time.Time
	// Log hears of what was freed, and of passes that came to nothing. Default:
	// nobody.
	Log *slog.Logger
}

// Start makes a pass [KeeperDelay] after it was elected, and one a day from then on,
// until ctx ends. A pass that comes to nothing is logged, and the next one tries
// again.
func (c *Caretaker) Start(ctx context.Context) error {
	after, log := c.After, c.Log
	if after == nil {
		after = time.After
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for wait := KeeperDelay; ; wait = KeeperEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-after(wait):
		}
		c.pass(ctx, log)
	}
}

// pass goes through all namespaces: that one cannot be collected says nothing of the
// next.
func (c *Caretaker) pass(ctx context.Context, log *slog.Logger) {
	names, err := c.Stores.Namespaces(ctx)
	if err != nil && ctx.Err() == nil {
		log.Warn("collecting data that nothing reaches", "err", err)
	}
	for _, name := range names {
		report, err := c.one(ctx, name)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("collecting data that nothing reaches", "namespace", name, "err", err)
		case report.Bytes > 0, report.Joined > 0:
			log.Info("data that nothing reached was removed", "namespace", name, "bytes", report.Bytes, "packs", report.Packs, "commits", report.Commits, "joined", report.Joined)
		}
	}
}

// one makes a pass over the store of a namespace. Heads are read anew at every look,
// whether the namespace is there or not: it may come back meanwhile.
func (c *Caretaker) one(ctx context.Context, namespace string) (data.CollectReport, error) {
	o := data.CollectOptions{Heads: []ref.Heads{Everything{Client: c.Client, Namespace: namespace}}, Grace: KeeperGrace}
	there, err := c.there(ctx, namespace)
	if err != nil {
		return data.CollectReport{}, err
	}
	if there {
		if err := c.Stores.Claim(ctx, namespace); err != nil {
			return data.CollectReport{}, err
		}
		return c.Stores.Collect(ctx, namespace, o)
	}
	gone, err := c.Stores.Abandon(ctx, namespace)
	if err != nil || gone < AbandonedGrace {
		return data.CollectReport{}, err
	}
	report, err := c.Stores.Collect(ctx, namespace, o)
	if err == nil && report.Kept == 0 && report.Waiting == 0 {
		err = c.Stores.Clear(ctx, namespace)
	}
	return report, err
}

// there says whether a namespace is, also one that is being deleted.
func (c *Caretaker) there(ctx context.Context, namespace string) (bool, error) {
	err := c.Client.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for namespace %s: %w", namespace, err)
	}
	return true, nil
}
