package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	table := NewTable("NAME", "STATE", "NOTE")
	table.Row("größe", "Running", "").Paint(1, Green)
	table.Row("b", "", "x")
	table.Row("c", "sh -c \n\techo  a\x1b[2J")
	table.Row("数据集", "\u202e9", "x")
	var plain, coloured strings.Builder
	if err := table.Write(&plain, Coloured(false), "  "); err != nil {
		t.Fatal(err)
	}
	if err := table.Write(&coloured, Coloured(true), ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("  NAME    STATE             NOTE\n  größe   Running\n  b                         x\n  c       sh -c echo a [2J\n  数据集  \\u202e9           x\n", plain.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if !strings.Contains(coloured.String(), "größe   \x1b[32mRunning\x1b[0m\n") {
		t.Errorf("coloured: %q", coloured.String())
	}
}

func TestWords(t *testing.T) {
	for span, want := range map[time.Duration]string{
		85 * time.Millisecond: "85 ms", 4200 * time.Millisecond: "4.2 s", 192 * time.Second: "3m 12s",
		125 * time.Minute: "2h 5m", 99 * time.Hour: "4d 3h", -time.Minute: "-1m 0s",
	} {
		if got := Span(span); got != want {
			t.Errorf("Span(%d) = %q, want %q", span, got, want)
		}
	}
	for span, want := range map[time.Duration]string{
		0: "under 1 s", 999 * time.Millisecond: "under 1 s", time.Second: "1 s", 27 * time.Second: "27 s", 192 * time.Second: "3m 12s",
	} {
		if got := WholeSpan(span); got != want {
			t.Errorf("WholeSpan(%s) = %q, want %q", span, got, want)
		}
	}
	for text, want := range map[string]string{"größe": "größe", "größer": "gr...", "a bcdefg": "a...", "数据": "数据", "数据集": "数...", "e\u0301e\u0301e\u0301": "e\u0301e\u0301e\u0301"} {
		if got := Shorten(text, 5); got != want {
			t.Errorf("Shorten(%q, 5) = %q, want %q", text, got, want)
		}
	}
	for size, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 80 << 30: "80.0 GiB"} {
		if got := Size64(size); got != want {
			t.Errorf("Size64(%d) = %q, want %q", size, got, want)
		}
	}
}

func TestQuickProgressShowsNothing(t *testing.T) {
	var out bytes.Buffer
	progress := NewProgress(&out, "Copying", Bytes)
	progress.Set(1, 2)
	progress.Say("now")
	progress.Stop()
	progress.Stop()
	if out.Len() > 0 {
		t.Errorf("shown: %q", out.String())
	}
	if got, want := progress.line(), "Copying: 1 B of 2 B, now"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

func TestBuffersAreNoTerminals(t *testing.T) {
	streams := Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	if Is(streams.Out) || streams.OutStyle() != Coloured(false) {
		t.Error("a buffer is taken for a terminal")
	}
}
