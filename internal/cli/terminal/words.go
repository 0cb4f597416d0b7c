package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Size64 returns a number of bytes in words: "312 B", "4.2 MiB".
func Size64(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, units := float64(bytes)/1024, "KMGTPE"
	for len(units) > 1 && value >= 1024 {
		value, units = value/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, units[0])
}

// Span returns a duration in words, with the two units that matter: "85 ms",
// "4.2 s", "3m 12s", "2h 5m", "4d 3h".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// WholeSpan returns a duration in words where it is known to the second only:
// "under 1 s", "27 s", "3m 12s".
func WholeSpan(d time.Duration) string {
	switch {
	case d >= 0 && d < time.Second:
		return "under 1 s"
	case d >= 0 && d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return Span(d)
}

// ellipsis stands for what is left out. It is ASCII: the printer of tables
// counts bytes.
const ellipsis = "..."

// Shorten returns text in at most width columns (at least 4), with "..." where
// something is left out.
func Shorten(text string, width int) string {
	width, text = max(width, len(ellipsis)+1), Clean(text)
	if columnsOf(text) <= width {
		return text
	}
	return strings.TrimRight(clip(text, width-len(ellipsis)), " ") + ellipsis
}

// columnsOf is how many columns of a terminal text has: two for each Chinese,
// Japanese or Korean character, none for a combining one.
func columnsOf(text string) int {
	columns := 0
	for _, r := range text {
		columns += columnsOfRune(r)
	}
	return columns
}

func columnsOfRune(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	switch kind := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case kind == width.EastAsianWide, kind == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Count returns "1 worker" or "3 workers".
func Count(number int64, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}
