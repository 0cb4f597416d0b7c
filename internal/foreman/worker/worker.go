package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// Options say who a worker is.
type Options struct {
	// Folder is that of the work: of its token and its datums. A worker that does
	// not see it is given a Post instead.
	Folder string
	// Post is the folder with the socket and the token of the work of this name.
	Post, Work string
	// Scratch is where a worker makes folders that go with it: for the files of its
	// datums where it has a Post. Default: [os.TempDir].
	Scratch string
	// Name is this process's, Member the place that it has in the job.
	Name, Member string
	// GPUs is how many it holds.
	GPUs float64
	// Environ are its variables, which programs have, too.
	Environ []string
	// Out is told what fails, in words.
	Out io.Writer
	// Temporary are the temporary folders that are this worker's alone: see [Temporary]. It empties
	// them before the next program, and ends the processes that the program before left behind.
	Temporary []string
	// Dedicated says that this process is this worker and nothing else: it starts no
	// other programs, and children that it gets are what its own left behind.
	Dedicated bool
}

// ErrStopped is why a worker ends whose context has.
var ErrStopped = errors.New("stopped; what was not finished is computed by another worker, or later")

// batchTime is for how long a worker takes work at a time.
const batchTime = 2 * time.Second

// mostAtOnce is how many datums it takes at a time.
const mostAtOnce = 512

// worker is one process.
type worker struct {
	o      Options
	client *client

	has []shift.Datum // not yet begun

	mu   sync.Mutex
	done []shift.Outcome
	// holds are those that were given to it and are not done.
	holds map[string]bool
	// pace is how long a datum takes, lately.
	pace    time.Duration
	program *shift.Program
	// courier carries files; nil: they are shared.
	courier *courier
	// heir says that what programs leave behind becomes this process's: see [worker.alone].
	heir bool
	// fresh empties the temporary folders.
	fresh *fresh
	// memory is the control group that bounds the memory of programs.
	memory *memory
}

// Run computes datums until there are none left, which is no error.
func Run(ctx context.Context, o Options) error {
	w := &worker{o: o, holds: map[string]bool{}, heir: o.Dedicated && inherit() == nil}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, "muster: "+format+"\n", args...) }
	var err error
	if w.client, err = newClient(&o, say); err != nil {
		return over(err)
	}
	if o.Post != "" {
		if w.courier, err = newCourier(ctx, w.client, &o, w.drop); err != nil {
			return err
		}
		defer w.courier.remove()
	}
	w.memory = ownMemory()
	w.memory.spare()
	if w.fresh, err = newFresh(o.Temporary); err != nil {
		return err
	}
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { w.renew(beat) })
	defer group.Wait()
	defer stop()
	if err = w.fill(ctx, 1); err == nil {
		if w.program.Batch {
			err = w.batch(ctx)
		} else {
			err = w.each(ctx)
		}
	}
	if ctx.Err() != nil {
		err = ErrStopped
	}
	if w.courier != nil {
		w.courier.finish(ctx)
	}
	stop()
	return errors.Join(over(err), w.leave(context.WithoutCancel(ctx)))
}

// over makes the end of the work no error.
func over(err error) error {
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// renew tells now and then that this worker lives.
func (w *worker) renew(ctx context.Context) {
	tick := time.NewTicker(shift.Lease / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := w.exchange(ctx, 0); err != nil {
			return
		}
	}
}

// exchange reports what is done and asks for more.
func (w *worker) exchange(ctx context.Context, want int) (shift.Answer, error) {
	w.mu.Lock()
	done := w.done
	w.done = nil
	has := slices.Sorted(maps.Keys(w.holds))
	w.mu.Unlock()
	a, err := w.client.ask(ctx, shift.Request{Worker: w.o.Name, Member: w.o.Member, GPUs: w.o.GPUs, Done: done, Has: has, Want: want})
	if err != nil {
		w.mu.Lock()
		w.done = append(done, w.done...)
		w.mu.Unlock()
		return a, err
	}
	return a, nil
}

// fill asks until there is a datum; the error is errOver where there will be none.
func (w *worker) fill(ctx context.Context, want int) error {
	for {
		a, err := w.exchange(ctx, want)
		if err != nil {
			return err
		}
		w.program = a.Program
		if len(a.Datums) > 0 {
			w.has = append(w.has, a.Datums...)
			w.hold(a.Datums)
			return nil
		}
		if a.End && (w.courier == nil || !w.courier.settle(ctx)) {
			return errOver
		}
	}
}

// want is how many datums take about as long as batchTime.
func (w *worker) want() int {
	if w.pace <= 0 {
		return 1
	}
	return max(1, min(mostAtOnce, int(batchTime/w.pace)))
}

// next is the datum to compute next.
func (w *worker) next(ctx context.Context) (shift.Datum, error) {
	if len(w.has) == 0 {
		if err := w.fill(ctx, w.want()); err != nil {
			return shift.Datum{}, err
		}
	}
	d := w.has[0]
	w.has = w.has[1:]
	if w.courier == nil {
		return d, nil
	}
	var then *shift.Datum
	if len(w.has) > 0 {
		then = &w.has[0]
	}
	folder, err := w.courier.fetch(ctx, d.ID, then)
	if errors.Is(err, errGone) {
		w.drop(d.ID)
		return w.next(ctx)
	}
	if err != nil {
		w.has = append(w.has, d)
		return d, err
	}
	d.Folder = folder
	_, err = w.client.ask(ctx, shift.Request{Worker: w.o.Name, Member: w.o.Member, GPUs: w.o.GPUs, Begun: []string{d.ID}})
	return d, err
}

// finish notes what became of a datum.
func (w *worker) finish(d shift.Datum, o shift.Outcome) {
	if o.Error != "" {
		w.client.say("datum %s: %s", d.Name, o.Error)
	}
	w.pace = (3*w.pace + max(o.Took, time.Microsecond)) / 4
	if w.courier != nil {
		w.courier.deliver(d, o)
		return
	}
	w.mu.Lock()
	w.done = append(w.done, o)
	delete(w.holds, o.ID)
	w.mu.Unlock()
}

// hold notes what was given to this worker, and drop what it has no longer.
func (w *worker) hold(given []shift.Datum) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range given {
		w.holds[given[i].ID] = true
	}
}

func (w *worker) drop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.holds, id)
}

// each runs the program for each datum.
func (w *worker) each(ctx context.Context) error {
	for {
		if err := w.fresh.empty(ctx); err != nil {
			return err
		}
		d, err := w.next(ctx)
		if err != nil {
			return err
		}
		o := w.compute(ctx, d)
		if ctx.Err() != nil && o.Error != "" {
			w.has = append(w.has, d) // it did not fail: it was stopped
			return ctx.Err()
		}
		w.finish(d, o)
	}
}

// leaveTimeout is how long a worker that ends tries to say so.
const leaveTimeout = 5 * time.Second

// leave gives back what is not begun, and reports the rest.
func (w *worker) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	r := shift.Request{Worker: w.o.Name, Member: w.o.Member, GPUs: w.o.GPUs, Leaving: true}
	w.mu.Lock()
	r.Done = w.done
	w.mu.Unlock()
	for _, d := range w.has {
		r.Back = append(r.Back, d.ID)
	}
	_, err := w.client.ask(ctx, r)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // what it has is found in its folder
	}
	return over(err)
}
