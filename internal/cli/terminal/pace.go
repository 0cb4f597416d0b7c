package terminal

import (
	"fmt"
	"math"
	"time"
)

const (
	// paceWindow is the time over which a rate is taken: long enough to be
	// read, short enough to follow.
	paceWindow = 10 * time.Second
	// paceStep is the least time between two samples.
	paceStep = 250 * time.Millisecond
	// paceLeast is the time that has to be seen before a rate is told.
	paceLeast = time.Second
)

// pace measures how fast something goes, from what was done when.
type pace struct{ samples []sample }

type sample struct {
	at   time.Time
	done int64
}

// note remembers that so much is done now.
func (p *pace) note(now time.Time, done int64) {
	last := len(p.samples) - 1
	if last >= 0 && done < p.samples[last].done {
		// Something else is counted from here on.
		p.samples, last = nil, -1
	}
	if last >= 1 && now.Sub(p.samples[last-1].at) < paceStep {
		p.samples[last] = sample{now, done}
		return
	}
	p.samples = append(p.samples, sample{now, done})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= paceWindow {
		p.samples = p.samples[1:]
	}
}

// rate is how much is done in a second; 0 while that is not known.
func (p *pace) rate() float64 {
	if len(p.samples) < 2 {
		return 0
	}
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	span := last.at.Sub(first.at)
	if span < paceLeast {
		return 0
	}
	return float64(last.done-first.done) / span.Seconds()
}

// left is how long the rest takes at this rate; false where that is not known.
func (p *pace) left(total int64) (time.Duration, bool) {
	rate := p.rate()
	if rate <= 0 || total <= 0 {
		return 0, false
	}
	rest := float64(max(0, total-p.samples[len(p.samples)-1].done)) / rate
	if rest > math.MaxInt64/float64(time.Second) {
		return 0, false
	}
	return time.Duration(rest * float64(time.Second)), true
}

// words say both: "210.3 MiB/s, 33 s left".
func (p *pace) words(unit Unit, total int64) string {
	rate := p.rate()
	if rate <= 0 {
		return ""
	}
	text := fmt.Sprintf("%.0f/s", rate)
	if unit == Bytes {
		text = Size64(int64(rate)) + "/s"
	}
	if left, known := p.left(total); known {
		text += ", " + WholeSpan(left) + " left"
	}
	return text
}
