package run

import (
	"context"
	"fmt"

	"github.com/muster-dev/muster/internal/cli/terminal"
)

// send brings the snapshot to a cluster's manager, which keeps it for the nodes.
// On embedded Muster it is where it is needed already.
func (o *options) send(ctx context.Context, in Inputs) error {
	if in.Snapshot == "" || o.dryRun || o.factory.Embedded() {
		return nil
	}
	manager, err := o.factory.Visitor()
	if err != nil {
		return err
	}
	store, err := o.codeStore()
	if err != nil {
		return err
	}
	progress := terminal.NewProgress(o.factory.Streams.Err, "Sending the code", terminal.Bytes)
	defer progress.Stop()
	if _, err := manager.Send(ctx, in.Namespace, store, in.Snapshot, progress.Set); err != nil {
		return fmt.Errorf("sending the code: %w", err)
	}
	return nil
}
