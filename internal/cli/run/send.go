package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// send brings the snapshot to a cluster's manager, which keeps it for the nodes.
// On embedded Muster it is where it is needed already.
func (o *options) send(ctx context.Context, in Inputs) error {
	if in.Snapshot == "" || o.dryRun || !o.factory.Elsewhere() {
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
	_, err = manager.Send(ctx, in.Namespace, store, in.Snapshot, progress.Set)
	var refused *visitor.Refused
	switch {
	case errors.As(err, &refused) && !refused.ByDoor && refused.Status == http.StatusNotFound:
		return nil // an embedded Muster by its kubeconfig; where it is a cluster, the job is refused in words
	case err != nil:
		return fmt.Errorf("sending the code: %w", err)
	}
	return nil
}
