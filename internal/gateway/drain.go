package gateway

import (
	"errors"
	"io"
	"time"

	"github.com/gofiber/fiber/v3"
)

const (
	// drained is how much of a body that was refused is read, so that the connection
	// can be used again and its client reads why.
	drained = 16 << 20
	// drainTime is how long that may take, and slowTime how long of who was cut off
	// because little came.
	drainTime = 5 * time.Second
	slowTime  = 500 * time.Millisecond
)

// drain reads what is left of a body after its answer was decided: else it would be
// taken for the next request. Where that is too much, the connection ends.
func drain(ctx fiber.Ctx, within time.Duration) {
	body := ctx.Request().BodyStream()
	if body == nil || ctx.Request().Header.ContentLength() <= 0 {
		return
	}
	conn := ctx.RequestCtx().Conn()
	err := conn.SetReadDeadline(time.Now().Add(within))
	if err == nil {
		_, err = io.CopyN(io.Discard, body, drained+1)
	}
	if !errors.Is(err, io.EOF) || conn.SetReadDeadline(time.Time{}) != nil {
		ctx.RequestCtx().SetConnectionClose()
	}
}
