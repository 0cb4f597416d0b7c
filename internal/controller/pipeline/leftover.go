package pipeline

import (
	"context"
	"fmt"
	"strings"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-dev/muster/api/v1alpha1"
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
	if c.deps.Machine.Elsewhere {
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
		if err != nil {
			return fmt.Errorf("reading the branches of %s: %w", PartsDataset, err)
		}
		for _, head := range heads {
			if uid, _, _ := strings.Cut(head.Name.Name, "."); there[uid] {
				continue
			}
			if err := d.Remove(ctx, head.Name); err != nil && !noParts(err) {
				return fmt.Errorf("forgetting what members of %s wrote: %w", head.Name.Name, err)
			}
		}
	}
	return nil
}
