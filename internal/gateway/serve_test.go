package gateway

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// TestTaken serves where somebody else does: that ends with an error, and at once.
func TestTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	w := &world{}
	g, err := New(Options{Stores: One{Uploads: &backend.Memory{}}, Catalog: w, Keyring: w, Address: taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = g.Serve(ctx, func(string) { t.Error("it says that it serves") })
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("it ended only when it was told to")
	}
}
