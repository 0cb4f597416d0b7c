package door

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/zeebo/blake3"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Orders says what agents are to fetch before any pod on their node names it.
type Orders interface {
	// Of are the orders of a node; changed is closed once any node has others. Ours is
	// false where another replica gives them.
	Of(node string) (orders []v1alpha1.DataOrder, changed <-chan struct{}, ours bool)
	// May reports whether a node has an order of data of a namespace.
	May(node, namespace string) (may, ours bool)
}

// aheadWait is for how long an agent waits for other orders than it has: less than
// whatever lies between lets a connection be silent.
const aheadWait = 20 * time.Second

// sendOrders answers an agent with what it is to fetch ahead, once that is something else
// than it has seen.
func (d *Door) sendOrders(w http.ResponseWriter, r *http.Request, caller Caller) error {
	if caller.Node == "" {
		return refuse(http.StatusForbidden, "what is fetched ahead is told to the agents of nodes: this token speaks for namespace %s", caller.Namespace)
	}
	if d.opts.Orders == nil {
		return refuse(http.StatusNotFound, "nothing is fetched ahead on this cluster (data.ahead of the installation)")
	}
	over := time.NewTimer(aheadWait)
	defer over.Stop()
	for last := false; ; {
		orders, changed, ours := d.opts.Orders.Of(caller.Node)
		if !ours {
			return d.elsewhere(w, "this replica gives no orders: another one does, or none yet")
		}
		text, err := json.Marshal(orders)
		if err != nil {
			return fmt.Errorf("writing the orders of node %s: %w", caller.Node, err)
		}
		version := fmt.Sprintf("%x", blake3.Sum256(text))[:16]
		if last || version != r.URL.Query().Get("seen") {
			w.Header().Set("ETag", version)
			send(w, http.StatusOK, orders)
			return nil
		}
		select {
		case <-changed:
		case <-over.C:
			last = true
		case <-d.closing:
			last = true
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// elsewhere sends an agent to another replica: its next try comes by a new connection.
func (d *Door) elsewhere(w http.ResponseWriter, why string) *Refusal {
	w.Header().Set("Connection", "close")
	return &Refusal{Status: http.StatusServiceUnavailable, Text: why, RetryAfter: time.Second}
}
