package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Patience is how long something may take before progress is shown.
const Patience = time.Second

// plainEvery is how often a line is printed where the stream is no terminal.
const plainEvery = 10 * time.Second

// Unit is what a progress counts.
type Unit int

// The units.
const (
	// Things counts whole things.
	Things Unit = iota
	// Bytes counts bytes and shows them as KiB, MiB and so on.
	Bytes
)

// Progress shows how far something has come: on a terminal as a bar (a
// spinner as long as the total is unknown), elsewhere as a line now and then.
// Nothing is shown in the first second. Its methods may be called at any time
// from any goroutine. It must be ended with [Progress.Stop].
type Progress struct {
	mu          sync.Mutex
	title       string
	message     string
	done, total int64
	unit        Unit
	printed     string
	paced       bool
	pace        pace

	quit chan struct{}
	gone chan struct{}
	bar  bool
	out  io.Writer
}

// NewProgress starts a progress on out, with this title.
func NewProgress(out io.Writer, title string, unit Unit) *Progress {
	p := &Progress{title: Clean(title), unit: unit, out: out, bar: Is(out), quit: make(chan struct{}), gone: make(chan struct{})}
	go p.loop()
	return p
}

// NewPaced starts a progress that also says how fast it goes and, where the
// total is known, how long the rest takes.
func NewPaced(out io.Writer, title string, unit Unit) *Progress {
	p := &Progress{title: Clean(title), unit: unit, out: out, bar: Is(out), paced: true, quit: make(chan struct{}), gone: make(chan struct{})}
	go p.loop()
	return p
}

// Set says that done of total units are done. A total of 0 means unknown.
func (p *Progress) Set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
	if p.paced {
		p.pace.note(time.Now(), done)
	}
}

// Say sets the words beside the bar.
func (p *Progress) Say(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.message = Clean(message)
}

// Stop ends the progress, takes the bar off the screen and returns once
// nothing more will be written. It may be called more than once.
func (p *Progress) Stop() {
	p.mu.Lock()
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.mu.Unlock()
	<-p.gone
}

// loop shows the progress until Stop, beginning after a second.
func (p *Progress) loop() {
	defer close(p.gone)
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-p.quit:
		return
	case <-patience.C:
	}
	if p.bar {
		p.showBar()
		return
	}
	p.showLines()
}

func (p *Progress) showLines() {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		if line := p.line(); line != p.printed {
			_, _ = fmt.Fprintln(p.out, line)
			p.printed = line
		}
		select {
		case <-p.quit:
			return
		case <-tick.C:
		}
	}
}

func (p *Progress) showBar() {
	container := mpb.New(mpb.WithOutput(Bare(p.out)), mpb.WithAutoRefresh())
	style := mpb.BarStyle().Lbound("").Rbound("").Filler("━").Tip("━").Padding(" ")
	_, total := p.state()
	prepend := mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.title + " " }))
	var bar *mpb.Bar
	if total > 0 {
		bar = container.New(total, style, mpb.BarRemoveOnComplete(), prepend, mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + p.tail() })))
	} else {
		bar = container.New(0, mpb.SpinnerStyle().PositionLeft(), mpb.BarRemoveOnComplete(), mpb.BarWidth(2), prepend,
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.tail() })))
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done, total := p.state()
		if total > 0 {
			bar.SetTotal(max(total, done+1), false)
			bar.SetCurrent(done)
		}
		select {
		case <-p.quit:
			bar.Abort(true)
			container.Wait()
			return
		case <-tick.C:
		}
	}
}

func (p *Progress) state() (done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, p.total
}

func (p *Progress) line() string {
	text := p.tail()
	if text == "" {
		return p.title + " …"
	}
	return p.title + ": " + text
}

// tail is the count and the words.
func (p *Progress) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := ""
	switch {
	case p.unit == Bytes && p.total > 0:
		count = Size64(p.done) + " of " + Size64(p.total)
	case p.unit == Bytes && p.done > 0:
		count = Size64(p.done)
	case p.total > 0:
		count = fmt.Sprintf("%d of %d", p.done, p.total)
	case p.done > 0:
		count = fmt.Sprint(p.done)
	}
	parts := make([]string, 0, 3)
	for _, part := range []string{count, p.pace.words(p.unit, p.total), p.message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}
