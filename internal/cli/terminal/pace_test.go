package terminal

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name  string
		unit  Unit
		total int64
		step  time.Duration
		done  []int64
		want  string
	}{
		{"nothing seen", Bytes, 100, time.Second, nil, ""},
		{"one moment", Bytes, 100, time.Second, []int64{7}, ""},
		{"not long enough", Bytes, 1 << 30, 100 * time.Millisecond, []int64{0, 1 << 20, 2 << 20}, ""},
		{"steady", Bytes, 100 << 20, time.Second, []int64{0, 10 << 20, 20 << 20}, "10.0 MiB/s, 8 s left"},
		{"what was there before does not count", Bytes, 100 << 20, time.Second, []int64{50 << 20, 60 << 20}, "10.0 MiB/s, 4 s left"},
		{"many samples in a step", Things, 1000, 50 * time.Millisecond, ramp(41, 5), "100/s, 8 s left"},
		{"the window forgets", Things, 10_000, time.Second, append(ramp(2, 5000), addTo(5000, ramp(21, 10))...), "10/s, 8m 0s left"},
		{"it began anew", Things, 100, time.Second, []int64{90, 0, 10, 20}, "10/s, 8 s left"},
		{"it stands still", Things, 100, time.Second, []int64{50, 50, 50}, ""},
		{"no total", Things, 0, time.Second, []int64{0, 10}, "10/s"},
		{"done", Things, 20, time.Second, []int64{0, 10, 20}, "10/s, under 1 s left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pace
			for i, done := range c.done {
				p.note(began.Add(time.Duration(i)*c.step), done)
			}
			if got := p.words(c.unit, c.total); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// ramp counts up from 0 by step, n values.
func ramp(n int, step int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i) * step
	}
	return out
}

func addTo(first int64, values []int64) []int64 {
	for i := range values {
		values[i] += first
	}
	return values
}
