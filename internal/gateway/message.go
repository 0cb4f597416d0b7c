package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
)

// A message is a body that is not the content of an object: which parts make up an
// upload, what is to be deleted. The S3 server reads it as a whole, and waits for it as
// long as its sender likes; so it is here before anybody is asked who sends it, and
// before that has a turn.

const (
	// mostMessage is how long a message may be: S3 has none that is longer, with 10,000
	// parts and their sums, or the names of 1,000 objects.
	mostMessage = 4 << 20
	// messages is how much room there is for all of them.
	messages = 64 << 20
	// hereAlready is how much of a body the HTTP server reads before anybody else.
	hereAlready = 8 << 10
	// messageTime is how long one may take to come.
	messageTime = 20 * time.Second
)

// read reads a message, where the body of a request is one. Call free once it is not
// needed any more.
func (g *Gateway) read(ctx fiber.Ctx, v *visit) (free func(), err error) {
	body, length := ctx.Request().BodyStream(), ctx.Request().Header.ContentLength()
	if body == nil || length >= 0 && length <= hereAlready || isContent(ctx) {
		return func() {}, nil
	}
	if length > mostMessage {
		v.cut = true
		return nil, tooLong(length)
	}
	size := int64(length)
	if length < 0 {
		size = mostMessage
	}
	waiting, cancel := context.WithTimeout(g.life, g.o.Patience)
	defer cancel()
	if err := g.messages.Acquire(waiting, size); err != nil {
		v.cut = true
		return nil, refusal("SlowDown", 503, "Muster is busy with others' requests: try again in a moment")
	}
	free = func() { g.messages.Release(size) }
	text, err := g.hear(body, v)
	if err != nil {
		free()
		v.cut = true
		return nil, err
	}
	ctx.Request().SetBody(text)
	return free, nil
}

// hear reads a message as it comes.
func (g *Gateway) hear(body io.Reader, v *visit) ([]byte, error) {
	if err := v.conn.SetReadDeadline(time.Now().Add(g.o.MessageTime)); err != nil {
		return nil, fmt.Errorf("waiting for a message: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(body, mostMessage+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refusal("RequestTimeout", 400, "not all of it came within %s: send it again", g.o.MessageTime)
	case err != nil:
		return nil, incomplete(err)
	case len(text) > mostMessage:
		return nil, tooLong(len(text))
	}
	if err := v.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("waiting for a message: %w", err)
	}
	return text, nil
}

func tooLong(length int) error {
	return refusal("MaxMessageLengthExceeded", 400, "a request of %d bytes that is no object's content: %d are allowed", length, mostMessage)
}

// about are the parameters of requests that put something about an object.
var about = []string{"acl", "legal-hold", "retention", "tagging"}

// isContent says that a body is the content of an object, or of a part of one, which is
// read as it comes.
func isContent(ctx fiber.Ctx) bool {
	switch ctx.Method() {
	case fiber.MethodPost:
		return strings.HasPrefix(ctx.Get(fiber.HeaderContentType), fiber.MIMEMultipartForm)
	case fiber.MethodPut:
	default:
		return false
	}
	if ctx.Get("X-Amz-Copy-Source") != "" {
		return false
	}
	for _, name := range about {
		if ctx.Request().URI().QueryArgs().Has(name) {
			return false
		}
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(ctx.Path(), "/"), "/")
	return key != ""
}
