package gateway

import (
	"errors"
	"io"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api/utils"
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

// endless reads a body that was sent without its length, in chunks of HTTP. The server's
// reader of those takes the next request for more of them when asked after their end, and
// what is below need not come to the end: what clients sign has an end of its own.
type endless struct {
	body  io.Reader
	ended bool
}

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	if e.ended {
		return 0, io.EOF
	}
	n, err := e.body.Read(p)
	e.ended = errors.Is(err, io.EOF)
	return n, err
}

// withoutLength is what reads a content that comes without its length, nil for all others.
func withoutLength(ctx fiber.Ctx) *endless {
	body := ctx.Request().BodyStream()
	if body == nil || ctx.Request().Header.ContentLength() >= 0 || !isContent(ctx) {
		return nil
	}
	e := &endless{body: body}
	utils.ContextKeyBodyReader.Set(ctx, e)
	return e
}

// drain reads what is left of a body after its answer was decided: else it would be
// taken for the next request. Where that is too much, the connection ends.
func drain(ctx fiber.Ctx, e *endless, within time.Duration) {
	body := ctx.Request().BodyStream()
	switch length := ctx.Request().Header.ContentLength(); {
	case body == nil || length == 0:
		return
	case e != nil:
		body = e
	case length < 0:
		return // it was read: it is no content
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
