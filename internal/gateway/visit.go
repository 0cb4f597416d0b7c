package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/gofiber/fiber/v3"

	"github.com/muster-dev/muster/internal/turns"
)

// visit is a request while it is served. It is of the goroutine that serves it.
type visit struct {
	conn net.Conn
	// lane is where it has its turn; nil: nobody knows yet who asks.
	lane *turns.Lane
	turn *turns.Turn
	// cut says that its body was not waited for any more.
	cut bool
}

// visiting is the key of a context that says which visit it is of.
type visiting struct{}

// receive has a request served. Its turn ends when all is done but sending the answer.
func receive(ctx fiber.Ctx) error {
	v := &visit{conn: ctx.RequestCtx().Conn()}
	defer v.leave()
	ctx.RequestCtx().SetUserValue(visiting{}, v)
	answered := ctx.Next()
	v.leave()
	within := drainTime
	if v.cut {
		within = slowTime
		ctx.RequestCtx().SetConnectionClose() // whatever still comes
	}
	drain(ctx, within)
	return answered
}

// enter waits for a turn in a lane, in place of one in another; namespaces that have
// fewer come first. Where it has one there already, or nothing came by a connection,
// there is nothing to wait for.
func (g *Gateway) enter(ctx context.Context, lane *turns.Lane, namespace string) error {
	v, ok := ctx.Value(visiting{}).(*visit)
	if !ok || v.lane == lane {
		return nil
	}
	v.leave()
	turn, err := lane.In(ctx, namespace, namespace)
	if errors.Is(err, context.Canceled) {
		return refusal("ServiceUnavailable", 503, "the gateway ends: come again")
	}
	if err != nil {
		return g.explain(err)
	}
	v.lane, v.turn = lane, turn
	return nil
}

// leave ends its turn, if it has one.
func (v *visit) leave() {
	if v.turn != nil {
		v.turn.Out()
	}
	v.lane, v.turn = nil, nil
}

// arriving is a body as it comes. Who sends nothing for long is not waited for, nor
// who is slow while others wait.
func arriving(ctx context.Context, body io.Reader) io.Reader {
	v, ok := ctx.Value(visiting{}).(*visit)
	if !ok || body == nil {
		return body
	}
	return &arrival{Reader: body, visit: v}
}

type arrival struct {
	io.Reader
	*visit
}

// Read implements io.Reader.
func (a *arrival) Read(p []byte) (int, error) {
	if a.turn == nil {
		return a.Reader.Read(p)
	}
	n, err := a.turn.Move(a.conn.SetReadDeadline, func() (int, error) { return a.Reader.Read(p) })
	if busy, ok := errors.AsType[*turns.Busy](err); ok {
		a.cut = true
		return n, slowDown(busy)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.cut = true
		return n, refusal("RequestTimeout", 400, "nothing came for %s, and the body is not whole: send it again", a.lane.Rules.Stall)
	}
	return n, err
}
