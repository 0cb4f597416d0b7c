// Package startup waits for an API server that answers and does not take objects
// of a kind yet: a server that has just started, or that Muster was just added to.
//
// It must not know any verb.
package startup

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// Within is the longest wait of verbs. The server's policies learn of new kinds every
	// few seconds.
	Within = 30 * time.Second
	look   = 500 * time.Millisecond
)

// Await calls ask until the server accepts the request, or refuses it with another status
// than 503 (not ready). A server that is not ready stores nothing. The parameter what is a
// plural noun for messages. Await writes one line to say when it waits. After within, Await
// returns an error that wraps the last answer.
func Await(ctx context.Context, say io.Writer, what string, within time.Duration, ask func(context.Context) error) error {
	last := time.NewTimer(within)
	defer last.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for told := false; ; told = true {
		err := ask(ctx)
		if !apierrors.IsServiceUnavailable(err) {
			return err
		}
		if !told {
			_, _ = fmt.Fprintf(say, "The server has just started and takes no %s yet; waiting for it\n", what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-last.C:
			return fmt.Errorf("the server answers, and has taken no %s for %s: look for the reason with `muster doctor` and in the API server's log, or ask an administrator; then try again (%w)", what, within, err)
		case <-tick.C:
		}
	}
}
