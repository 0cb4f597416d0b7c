package pipeline

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
)

// sweep removes the files of runs that do not exist any more.
func (c *Runs) sweep(ctx context.Context) {
	list := &v1alpha1.PipelineRunList{}
	known, err := c.deps.Machine.Foreman.Known()
	if err != nil || c.live.List(ctx, list) != nil {
		return // at the next start
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[string(list.Items[i].UID)] = true
	}
	if c.deps.Machine.carries() {
		if err := c.sweepParts(ctx, there); err != nil {
			logf.FromContext(ctx).Error(err, "what members of stages wrote that are gone is removed at the next start")
		}
	}
	for _, name := range known {
		if uid, _, _ := strings.Cut(name, "."); !there[uid] {
			_ = c.deps.Machine.Foreman.Close(name) // at the next start
		}
	}
}

// sweepParts forgets what is left of runs that do not exist any more; there are the
// UIDs of those that do.
func (c *Runs) sweepParts(ctx context.Context, there map[string]bool) error {
	datasets := &v1alpha1.DatasetList{}
	if err := c.live.List(ctx, datasets); err != nil {
		return fmt.Errorf("listing datasets: %w", err)
	}
	for i := range datasets.Items {
		if datasets.Items[i].Name != PartsDataset {
			continue
		}
		d, err := c.deps.Machine.dataset(ctx, c.live, datasets.Items[i].Namespace, PartsDataset)
		if err != nil {
			return err
		}
		heads, err := d.Heads(ctx)
		if err == nil {
			err = removeParts(ctx, d, heads, there)
		}
		if err != nil {
			return fmt.Errorf("clearing dataset %s: %w", PartsDataset, err)
		}
	}
	return nil
}

// dropParts forgets what is left in a namespace of runs that do not exist any more,
// whichever manager had them.
func (c *Runs) dropParts(ctx context.Context, namespace string) error {
	d, err := c.deps.Machine.dataset(ctx, c.live, namespace, PartsDataset)
	if err != nil {
		return err
	}
	heads, err := d.Heads(ctx)
	if noParts(err) || err == nil && len(heads) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clearing dataset %s: %w", PartsDataset, err)
	}
	// After the branches: a run whose branch was there is there now, or is gone.
	runs := &v1alpha1.PipelineRunList{}
	if err := c.live.List(ctx, runs, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing runs: %w", err)
	}
	there := map[string]bool{}
	for i := range runs.Items {
		there[string(runs.Items[i].UID)] = runs.Items[i].DeletionTimestamp.IsZero()
	}
	return removeParts(ctx, d, heads, there)
}

// removeParts removes the branches that are not of runs that are there, by their UIDs.
func removeParts(ctx context.Context, d *data.Dataset, heads []data.Head, there map[string]bool) error {
	for _, head := range heads {
		if uid, _, _ := strings.Cut(head.Name.Name, "."); there[uid] {
			continue
		}
		if err := d.Remove(ctx, head.Name); err != nil && !noParts(err) {
			return fmt.Errorf("forgetting what members of %s wrote: %w", head.Name.Name, err)
		}
	}
	return nil
}
