package harness

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ waited, took, want time.Duration }{
		{0, 0, 20 * ms},
		{time.Second, ms, 50 * ms},
		{time.Minute, ms, 100 * ms},
		{0, 100 * ms, 300 * ms},
		{0, time.Minute, 500 * ms}, // a check that waits itself
		{time.Minute, 20 * ms, 100 * ms},
	} {
		if got := pause(test.waited, test.took); got != test.want {
			t.Errorf("after %s, the last check took %s: %s, want %s", test.waited, test.took, got, test.want)
		}
	}
}
