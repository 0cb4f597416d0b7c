package unpause

import (
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/standstill"
)

// What else keeps work from starting is named.
func TestUnpause(t *testing.T) {
	server := sample.Team(t)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	for _, queue := range []string{"", "vision"} {
		if _, err := standstill.Set(t.Context(), server, standstill.Standstill{Queue: queue, Who: "ada@box", Since: noon}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ queue, out, errs string }{
		{"ocr", "queue ocr is not paused\n", "still: scheduling is paused since 2026-03-01 12:00 by ada@box (`muster unpause` ends it)\n" +
			"still: queue vision is stopped since 2026-03-01 12:00 by ada@box (`muster unpause --queue vision` ends it)\n"},
		{"vision", "queue vision goes on\n", "still: scheduling is paused since 2026-03-01 12:00 by ada@box (`muster unpause` ends it)\n"},
		{"", "scheduling goes on\n", ""},
		{"", "scheduling is not paused\n", ""},
		{"batch", "queue batch goes on\n", ""},
	} {
		streams, out, errs := sample.Streams()
		if err := run(t.Context(), server, streams, c.queue); err != nil || out.String() != c.out || errs.String() != c.errs {
			t.Errorf("queue %q: error %v, said %q and %q, want %q and %q", c.queue, err, out, errs, c.out, c.errs)
		}
	}
}
