package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"github.com/muster-dev/muster/internal/turns"
)

// visit is a request while it is served. Its body may be read by other goroutines than
// the one that serves it, which do not always stop by themselves when that does.
type visit struct {
	conn net.Conn

	mu sync.Mutex
	// lane is where it has its turn; nil: nobody knows yet who asks.
	lane *turns.Lane
	turn *turns.Turn
	// encoded reports that a listing has to encode names.
	encoded bool
	// cut says that its connection is not to be used again.
	cut bool
	// over says that nothing of its body is wanted any more, reading that somebody reads it
	// now, which has one then.
	over, reading bool
	one           sync.Mutex
}

// visiting is the key of a context that says which visit it is of.
type visiting struct{}

// receive has a request served. Its turn ends when all is done but sending the answer.
func (g *Gateway) receive(ctx fiber.Ctx) error {
	v := &visit{conn: ctx.RequestCtx().Conn()}
	defer v.leave()
	ctx.RequestCtx().SetUserValue(visiting{}, v)
	answered := demand(ctx, v)
	free := func() {}
	if answered == nil {
		free, answered = g.read(ctx, v)
	}
	content := withoutLength(ctx)
	if answered == nil {
		defer free()
		answered = ctx.Next()
	} else {
		answered = refuse(ctx, answered)
	}
	single(ctx)
	v.leave()
	if v.end() {
		// What still comes is nobody's request.
		ctx.RequestCtx().SetConnectionClose()
		return answered
	}
	within := drainTime
	if v.cut {
		within = slowTime
		ctx.RequestCtx().SetConnectionClose() // whatever still comes
	}
	drain(ctx, content, within)
	return answered
}

// single removes second copies of the headers with the IDs of the request. versitygw sets
// them, stops the normalization of names, and sets them again.
func single(ctx fiber.Ctx) {
	header := &ctx.Response().Header
	for _, name := range []string{utils.HeaderAmzRequestID, utils.HeaderAmzID2} {
		canonical := http.CanonicalHeaderKey(name)
		if value := string(header.Peek(name)); value != "" {
			header.Del(canonical)
			header.Del(name)
			header.Set(name, value)
		}
	}
}

// refuse answers with an error of S3.
func refuse(ctx fiber.Ctx, err error) error {
	said, ok := errors.AsType[s3err.S3Error](err)
	if !ok {
		return err
	}
	request, host := utils.EnsureRequestIDs(ctx)
	ctx.Response().Header.SetContentType(fiber.MIMEApplicationXML)
	return ctx.Status(said.StatusCode()).Send(said.XMLBody(request, host))
}

// enter waits for a turn in a lane, in place of one in another; namespaces that have
// fewer come first. Where it has one there already, or nothing came by a connection,
// there is nothing to wait for.
func (g *Gateway) enter(ctx context.Context, lane *turns.Lane, namespace string) error {
	v, ok := ctx.Value(visiting{}).(*visit)
	if !ok || v.in(lane) {
		return nil
	}
	v.leave()
	turn, err := lane.In(ctx, namespace, namespace)
	if errors.Is(err, context.Canceled) {
		return refusal("ServiceUnavailable", 503, "the gateway ends: come again")
	}
	if err != nil {
		v.mu.Lock()
		v.cut = true // connections are for those who are served
		v.mu.Unlock()
		return g.explain(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lane, v.turn = lane, turn
	return nil
}

// in says whether it has its turn in a lane.
func (v *visit) in(lane *turns.Lane) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lane == lane
}

// leave ends its turn, if it has one.
func (v *visit) leave() {
	v.mu.Lock()
	turn := v.turn
	v.lane, v.turn = nil, nil
	v.mu.Unlock()
	if turn != nil {
		turn.Out()
	}
}

// end has nothing of the body be read any more, and waits for who just does; it says
// whether there was somebody, and so nobody knows what was read.
func (v *visit) end() bool {
	v.mu.Lock()
	v.over = true
	reading := v.reading
	if reading {
		v.cut = true
		_ = v.conn.SetReadDeadline(past)
	}
	v.mu.Unlock()
	if reading {
		v.one.Lock()
		defer v.one.Unlock()
	}
	return reading
}

// ended says whether nothing of the body is wanted any more.
func (v *visit) ended() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.over
}

// past is a time by which nothing comes.
var past = time.Unix(1, 0)

// deadline sets until when the read that is under way waits.
func (v *visit) deadline(at time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		at = past
	}
	return v.conn.SetReadDeadline(at)
}

// begin says that somebody reads from now on, in which turn; false: nothing is to be
// read any more.
func (v *visit) begin() (turn *turns.Turn, stall time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return nil, 0, false
	}
	if v.turn != nil {
		stall = v.lane.Rules.Stall
	}
	v.reading = true
	return v.turn, stall, true
}

// done says that it does not any more; cut, that the connection is of no use.
func (v *visit) done(cut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut, v.reading = v.cut || cut, false
}

// cease has nothing of the body of a request be read any more by those who were given it.
func cease(ctx context.Context) {
	if v, ok := ctx.Value(visiting{}).(*visit); ok {
		v.end()
	}
}

// arriving is a body as it comes. Who sends nothing for long is not waited for, nor
// who is slow while others wait.
func arriving(ctx context.Context, body io.Reader) io.Reader {
	v, ok := ctx.Value(visiting{}).(*visit)
	if !ok || body == nil {
		return body
	}
	return &arrival{body: body, visit: v}
}

type arrival struct {
	body  io.Reader
	visit *visit
}

// atATime is how much is read at a time: some of what is below waits until all of what
// it was asked for is there, and the pace is that of what is read.
const atATime = 64 << 10

// errOver is why nothing is read from a body whose request was answered.
var errOver = errors.New("the request was answered: nothing of its body is read any more")

// Read implements io.Reader.
func (a *arrival) Read(p []byte) (n int, err error) {
	a.visit.one.Lock()
	defer a.visit.one.Unlock()
	turn, stall, ok := a.visit.begin()
	if !ok {
		return 0, errOver
	}
	cut := false
	defer func() { a.visit.done(cut) }()
	p = p[:min(len(p), atATime)]
	if turn == nil {
		n, err = a.body.Read(p)
	} else {
		n, err = turn.Move(a.visit.deadline, func() (int, error) { return a.body.Read(p) })
	}
	if busy, ok := errors.AsType[*turns.Busy](err); ok {
		cut = true
		return n, slowDown(busy)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if a.visit.ended() { // by which the deadline is
		return n, errOver
	}
	cut = true
	if turn == nil {
		return n, err
	}
	return n, refusal("RequestTimeout", 400, "nothing came for %s, and the body is not whole: send it again", stall)
}
