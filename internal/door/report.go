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
	said := map[types.UID]v1alpha1.PodProgress{}
	err := d.hear(w, r, caller, &said, func(ctx context.Context) error { return d.opts.Reports.Take(ctx, caller.Node, said) })
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// takeArrivals hears what the agent of a node says of the data of the pods there, and
// answers which of them are not known.
func (d *Door) takeArrivals(w http.ResponseWriter, r *http.Request, caller Caller) error {
	said, unknown := map[types.UID]v1alpha1.PodData{}, []types.UID(nil)
	err := d.hear(w, r, caller, &said, func(ctx context.Context) (err error) {
		unknown, err = d.opts.Reports.TakeData(ctx, caller.Node, said)
		return err
	})
	if err == nil {
		send(w, http.StatusOK, unknown)
	}
	return err
}

// hear reads what an agent says, and passes it on.
func (d *Door) hear(w http.ResponseWriter, r *http.Request, caller Caller, into any, take func(context.Context) error) error {
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
	if err := json.Unmarshal(text, into); err != nil {
		return refuse(http.StatusBadRequest, "reading how far pods are: %v", err)
	}
	if err := take(ctx); err != nil {
		return fmt.Errorf("writing how far pods on node %s are: %w", caller.Node, err)
	}
	return nil
}
