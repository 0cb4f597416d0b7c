package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFitPage(t *testing.T) {
	page := "one\ntwo\nthree\nfour\n"
	for _, c := range []struct {
		name          string
		columns, rows int
		want          []string
	}{
		{"it fits", 10, 5, []string{"one", "two", "three", "four"}},
		{"too narrow", 3, 5, []string{"one", "two", "thr", "fou"}},
		{"too low", 80, 4, []string{"one", "two", "... 2 more lines: make the window higher"}},
		{"one row", 80, 1, []string{"... 4 more lines: make the window higher"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, fitPage(page, c.columns, c.rows)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClipKeepsColours(t *testing.T) {
	style := Coloured(true)
	got := clip("größe "+style.Paint(Green, "Running")+" more", 9)
	if want := "größe \x1b[32mRun\x1b[0m"; got != want {
		t.Errorf("clipped to %q, want %q", got, want)
	}
}

func TestScreenBringsTheCursorBack(t *testing.T) {
	var out bytes.Buffer
	screen := NewScreen(&out)
	screen.Close()
	if out.Len() > 0 {
		t.Errorf("a screen that showed nothing wrote %q", out.String())
	}
	for _, page := range []string{"first\n", "second\n"} {
		if err := screen.Draw(page); err != nil {
			t.Fatal(err)
		}
	}
	screen.Close()
	screen.Close()
	text := out.String()
	if strings.Count(text, "\x1b[?25l") != 1 || strings.Count(text, "\x1b[?25h") != 1 || !strings.HasSuffix(text, "\x1b[?25h") {
		t.Errorf("the cursor is not hidden once and shown at the end: %q", text)
	}
	if !strings.Contains(text, "\x1b[Hsecond\x1b[K\r\n\x1b[J") {
		t.Errorf("the second page is not drawn over the first: %q", text)
	}
}
