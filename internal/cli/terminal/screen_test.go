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

func TestClipCutsNoWideCharacter(t *testing.T) {
	for columns, want := range map[int]string{0: "", 1: "", 2: "数", 3: "数", 4: "数据", 5: "数据a", 9: "数据ab"} {
		if got := clip("数据ab", columns); got != want {
			t.Errorf("clipped to %d columns: %q, want %q", columns, got, want)
		}
	}
}

// TestScreenShowsNoSequence: the text of a page moves no cursor.
func TestScreenShowsNoSequence(t *testing.T) {
	var out bytes.Buffer
	streams := Streams{Out: &out, Err: &out}.Guarded()
	style := Style{enabled: true, mark: markOf(streams.Out)}
	screen := NewScreen(streams.Out)
	if err := screen.Draw(style.Paint(Green, "Running") + " \x1b[9Aaway \x1b]0;title\a\r\n"); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[H\x1b[32mRunning\x1b[0m \\x1b[9Aaway \\x1b]0;title\\x07"; !strings.Contains(out.String(), want) {
		t.Errorf("drawn: %q, want %q", out.String(), want)
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
