package door

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// takeReports hears what the agent of a node says of the pods there.
func (d *Door) takeReports(w http.ResponseWriter, r *http.Request, caller Caller) error {
	if caller.Node == "" {
		return refuse(http.StatusForbidden, "how far pods are is said by the agents of nodes: this token speaks for namespace %s", caller.Namespace)
	}
	if d.opts.Reports == nil {
		return refuse(http.StatusNotFound, "nobody hears this here")
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, reportBytes))
	if err != nil {
		return err
	}
	said := map[types.UID]v1alpha1.PodProgress{}
	if err := json.Unmarshal(text, &said); err != nil {
		return refuse(http.StatusBadRequest, "reading how far pods are: %v", err)
	}
	if err := d.opts.Reports.Take(ctx, caller.Node, said); err != nil {
		return fmt.Errorf("writing how far pods on node %s are: %w", caller.Node, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
