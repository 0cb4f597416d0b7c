package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// deliveries is how many datums are on their way to the foreman at most while the
// program has another one.
const deliveries = 2

// courier carries the files of datums for a worker that does not share the
// foreman's folder: those of the next one while the program has one, and what it
// made of the one before. Streams that break are tried again.
type courier struct {
	client *client
	worker string
	dir    string
	// over is told which datums are not this worker's any more.
	over func(id string)

	// coming are the files that were asked for ahead, by the datum.
	coming map[string]<-chan error
	slots  chan struct{}
	// sent says that something was sent since it was last waited for.
	sent bool
	// Fetching ends with the worker's context; delivering goes on a little.
	fetching, delivering func(func(context.Context))
	stop                 context.CancelFunc
	group                sync.WaitGroup
}

func newCourier(ctx context.Context, c *client, o *Options, over func(string)) (*courier, error) {
	dir, err := os.MkdirTemp(linked(o.Scratch), "datums-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the files of datums: %w", err)
	}
	out := &courier{client: c, worker: o.Name, dir: dir, over: over, coming: map[string]<-chan error{}, slots: make(chan struct{}, deliveries)}
	out.fetching = func(f func(context.Context)) { out.group.Go(func() { f(ctx) }) }
	var late context.Context
	late, out.stop = context.WithCancel(context.WithoutCancel(ctx))
	out.delivering = func(f func(context.Context)) { out.group.Go(func() { f(late) }) }
	return out, nil
}

// linked is the target of a folder that is a link, as in the plain tier. A program that resolves the paths of
// its variables names the folder so, also in links in its output.
func linked(folder string) string {
	if to, err := os.Readlink(folder); err == nil && filepath.IsAbs(to) {
		return to
	}
	return folder
}

// remove removes what is left.
func (c *courier) remove() { _ = os.RemoveAll(c.dir) }

// finish waits until everything is delivered; where ctx has ended, not for long.
func (c *courier) finish(ctx context.Context) {
	if ctx.Err() != nil {
		timer := time.AfterFunc(leaveTimeout, c.stop)
		defer timer.Stop()
	}
	c.group.Wait()
	c.stop()
}

// settle waits until what is on its way has come, and says whether anything was: a
// datum that failed may be given out once more.
func (c *courier) settle(ctx context.Context) bool {
	sent := c.sent
	c.sent = false
	for taken := range deliveries {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			c.free(taken)
			return false
		}
	}
	c.free(deliveries)
	return sent
}

func (c *courier) free(slots int) {
	for range slots {
		<-c.slots
	}
}

func (c *courier) folder(id string) string { return filepath.Join(c.dir, id) }

func (c *courier) path(id string) string {
	return shift.DatumsPath + url.PathEscape(id) + "?" + url.Values{shift.WorkerParameter: {c.worker}}.Encode()
}

// fetch has the files of a datum here, and those of the one after it come next.
func (c *courier) fetch(ctx context.Context, id string, then *shift.Datum) (string, error) {
	come := c.coming[id]
	delete(c.coming, id)
	if come == nil {
		come = c.order(id)
	}
	select {
	case err := <-come:
		if err != nil {
			return "", err
		}
	case <-ctx.Done():
		c.coming[id] = come
		return "", ctx.Err()
	}
	if then != nil && c.coming[then.ID] == nil {
		c.coming[then.ID] = c.order(then.ID)
	}
	return c.folder(id), nil
}

// order asks for the files of a datum.
func (c *courier) order(id string) <-chan error {
	come := make(chan error, 1)
	c.fetching(func(ctx context.Context) {
		come <- c.client.insist(ctx, func() error { return c.get(ctx, id) })
	})
	return come
}

// get fetches the files of a datum once.
func (c *courier) get(ctx context.Context, id string) error {
	folder := c.folder(id)
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("clearing the folder of a datum: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(folder, shift.OutFolder), 0o755); err != nil {
		return fmt.Errorf("making the folder of a datum: %w", err)
	}
	response, err := c.client.do(ctx, http.MethodGet, c.path(id), nil, 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	err = parcel.Read(response.Body, folder, parcel.Limits{}, shift.LogFile, shift.InFolder)
	var refused *parcel.Refusal
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: the files of a datum: %w", errRefused, err)
	}
	return err
}

// deliver sends what became of a datum, while the worker goes on. It waits where
// several are on their way already.
func (c *courier) deliver(d shift.Datum, o shift.Outcome) {
	c.slots <- struct{}{}
	c.sent = true
	c.delivering(func(ctx context.Context) {
		defer func() {
			c.over(d.ID)
			<-c.slots
		}()
		err := c.bring(ctx, d, o)
		var no error
		if errors.Is(err, errRefused) && o.Error == "" {
			// The foreman says what is wrong with the output: that is a failure.
			no, o.Exit, o.Error, o.Final = err, -1, err.Error(), true
			c.client.say("datum %s: %s", d.Name, o.Error)
			err = c.bring(ctx, d, o)
		}
		if err != nil && !errors.Is(err, errOver) && !errors.Is(err, errGone) && ctx.Err() == nil {
			c.client.say("datum %s: what was made of it is lost: %v", d.Name, errors.Join(no, err))
		}
		if err := os.RemoveAll(d.Folder); err != nil {
			c.client.say("removing the files of datum %s: %v", d.Name, err)
		}
	})
}

// bring sends a datum until it is taken, or refused: its log, and, of one that
// succeeded, its output.
func (c *courier) bring(ctx context.Context, d shift.Datum, o shift.Outcome) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = noteOutcome(d.Folder, text)
	}
	if err != nil {
		return fmt.Errorf("noting the outcome of a datum: %w", err)
	}
	names := []string{shift.LogFile}
	if o.Error == "" {
		names = append(names, shift.OutFolder)
	}
	return c.client.insist(ctx, func() error { return c.client.put(ctx, c.path(d.ID), d.Folder, append(names, shift.OutcomeFile)) })
}

// put sends what lies in a folder under these names, once.
func (c *client) put(ctx context.Context, path, folder string, names []string) error {
	size, err := parcel.Size(folder, names...)
	if err != nil {
		return err
	}
	out, in := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := parcel.Write(in, folder, names...)
		sent <- err
		_ = in.CloseWithError(err) // never fails
	}()
	response, err := c.do(ctx, http.MethodPut, path, out, size)
	_ = out.Close() // ends the writer where nobody reads any more
	wrote := <-sent
	if err == nil {
		err = response.Body.Close()
	} else if wrote != nil && !errors.Is(wrote, io.ErrClosedPipe) && !errors.Is(err, errRefused) {
		err = fmt.Errorf("%w (%w)", err, wrote)
	}
	return err
}
