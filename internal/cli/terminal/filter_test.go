package terminal

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFilter(t *testing.T) {
	for _, c := range []struct{ name, text, plain, coloured, lively string }{
		{"nothing", "", "", "", ""},
		{"ASCII", "a b\tc\nd", "a b\tc\nd", "a b\tc\nd", "a b\tc\nd"},
		{"Chinese", "数据集 训练完成", "数据集 训练完成", "数据集 训练完成", "数据集 训练完成"},
		{"wide space, emoji with joiner, Persian with non-joiner", "a\u3000👩\u200d🚀 می\u200cخواهم", "a\u3000👩\u200d🚀 می\u200cخواهم", "a\u3000👩\u200d🚀 می\u200cخواهم", "a\u3000👩\u200d🚀 می\u200cخواهم"},
		{"colour", "\x1b[1;31mred\x1b[0m", `\x1b[1;31mred\x1b[0m`, "\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"},
		{"colour of 24 bits", "\x1b[38:2::1:2:3m", `\x1b[38:2::1:2:3m`, "\x1b[38:2::1:2:3m", "\x1b[38:2::1:2:3m"},
		{"progress bar", "\r 50%|█▌  |\x1b[K", `\r 50%|█▌  |\x1b[K`, `\r 50%|█▌  |\x1b[K`, "\r 50%|█▌  |\x1b[K"},
		{"backspace", "passworx\bd", `passworx\x08d`, `passworx\x08d`, "passworx\bd"},
		{"lines of Windows", "a\r\nb\r\n", "a\r\nb\r\n", "a\r\nb\r\n", "a\r\nb\r\n"},
		{"bell", "a\a", `a\x07`, `a\x07`, `a\x07`},
		{"NUL, form feed, vertical tab, DEL", "\x00\f\v\x7f", `\x00\x0c\x0b\x7f`, `\x00\x0c\x0b\x7f`, `\x00\x0c\x0b\x7f`},
		{"link", "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\", `\x1b]8;;http://x\x1b\y\x1b]8;;\x1b\`, `\x1b]8;;http://x\x1b\y\x1b]8;;\x1b\`, `\x1b]8;;http://x\x1b\y\x1b]8;;\x1b\`},
		{"clipboard", "\x1b]52;c;eA==\a", `\x1b]52;c;eA==\x07`, `\x1b]52;c;eA==\x07`, `\x1b]52;c;eA==\x07`},
		{"device control, reset, character set", "\x1bP1\x1b\\\x1bc\x1b(0", `\x1bP1\x1b\\x1bc\x1b(0`, `\x1bP1\x1b\\x1bc\x1b(0`, `\x1bP1\x1b\\x1bc\x1b(0`},
		{"clear, cursor up, cursor away", "\x1b[2J\x1b[A\x1b[9;9H\x1b[?25l", `\x1b[2J\x1b[A\x1b[9;9H\x1b[?25l`, `\x1b[2J\x1b[A\x1b[9;9H\x1b[?25l`, `\x1b[2J\x1b[A\x1b[9;9H\x1b[?25l`},
		{"keyboard of xterm, not a colour", "\x1b[>4;1m", `\x1b[>4;1m`, `\x1b[>4;1m`, `\x1b[>4;1m`},
		{"intermediate character, not a colour", "\x1b[1 m", `\x1b[1 m`, `\x1b[1 m`, `\x1b[1 m`},
		{"too many parameters", "\x1b[" + strings.Repeat("1;", 40) + "m", `\x1b[` + strings.Repeat("1;", 40) + "m", `\x1b[` + strings.Repeat("1;", 40) + "m", `\x1b[` + strings.Repeat("1;", 40) + "m"},
		{"C1 as characters", "\u009b31m\u009d0;x\u009c\u0085", `\u009b31m\u009d0;x\u009c\u0085`, `\u009b31m\u009d0;x\u009c\u0085`, `\u009b31m\u009d0;x\u009c\u0085`},
		{"C1 as bytes", "\x9b31m", "\uFFFD31m", "\uFFFD31m", "\uFFFD31m"},
		{"invalid UTF-8", "a\xff\xc0\x80b\xe6\x95", "a\uFFFD\uFFFD\uFFFDb\uFFFD\uFFFD", "a\uFFFD\uFFFD\uFFFDb\uFFFD\uFFFD", "a\uFFFD\uFFFD\uFFFDb\uFFFD\uFFFD"},
		{"U+FFFD itself", "\uFFFD", "\uFFFD", "\uFFFD", "\uFFFD"},
		{"bidirectional", "\u202egnp.exe\u2069\u200f\u061c", `\u202egnp.exe\u2069\u200f\u061c`, `\u202egnp.exe\u2069\u200f\u061c`, `\u202egnp.exe\u2069\u200f\u061c`},
		{"separators, BOM, tags", "\u2028\u2029\ufeff\U000e0041", `\u2028\u2029\ufeff\U000e0041`, `\u2028\u2029\ufeff\U000e0041`, `\u2028\u2029\ufeff\U000e0041`},
		{"ends in a sequence", "a\x1b[3", `a\x1b[3`, `a\x1b[3`, `a\x1b[3`},
		{"ends in ESC", "a\x1b", `a\x1b`, `a\x1b`, `a\x1b`},
		{"ends in a carriage return", "a\r", `a\r`, `a\r`, "a\r"},
		{"ESC in a sequence", "\x1b[3\x1b[31mx", `\x1b[3\x1b[31mx`, `\x1b[3` + "\x1b[31mx", `\x1b[3` + "\x1b[31mx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for r, want := range []string{c.plain, c.coloured, c.lively} {
				if got := clean(rule(r), c.text); got != want {
					t.Errorf("rule %d: %q, want %q", r, got, want)
				}
				if got := inPieces(filter{rule: rule(r)}, c.text, 1); got != want {
					t.Errorf("rule %d, byte by byte: %q, want %q", r, got, want)
				}
			}
		})
	}
}

// inPieces filters text in writes of so many bytes.
func inPieces(f filter, text string, size int) string {
	var out []byte
	for len(text) > 0 {
		n := min(size, len(text))
		out = f.append(out, []byte(text[:n]))
		text = text[n:]
	}
	return string(f.end(out))
}

// controls are characters that no text for a terminal may have, except as a rule lets them pass.
var controls = regexp.MustCompile(`[^\P{Cc}\n\t]|[\x{61c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

var passes = [...]*regexp.Regexp{
	plain:    regexp.MustCompile(`\r\n`),
	coloured: regexp.MustCompile(`\r\n|\x1b\[[0-9;:]*m`),
	lively:   regexp.MustCompile(`\r|\x08|\x1b\[[0-9;:]*[mK]`),
}

// FuzzFilter: any text, cut anywhere, holds no control character beside a rule's sequences, a second pass changes nothing, and harmless text stays.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"\x1b[31m\x1b]52;c;eA==\a\r\n", "数据\u202e\x9b\u009b1m\x1b[K\b", "\x1b[12345;31m\x1b[3", "\r\x1b[\xe6\x95", "\x1b\x1b[1m\r\r\n"} {
		f.Add(seed, byte(3))
	}
	f.Fuzz(func(t *testing.T, text string, size byte) {
		for r := plain; r <= lively; r++ {
			got := clean(r, text)
			if !utf8.ValidString(got) {
				t.Fatalf("rule %d: %q becomes %q, which is no UTF-8", r, text, got)
			}
			if found := controls.FindString(passes[r].ReplaceAllString(got, "")); found != "" {
				t.Fatalf("rule %d: %q becomes %q, with %q", r, text, got, found)
			}
			if again := clean(r, got); again != got {
				t.Fatalf("rule %d: %q becomes %q, and then %q", r, text, got, again)
			}
			if cut := inPieces(filter{rule: r}, text, int(size)+1); cut != got {
				t.Fatalf("rule %d: %q becomes %q at once and %q in pieces of %d", r, text, got, cut, int(size)+1)
			}
			if utf8.ValidString(text) && !controls.MatchString(text) && !strings.ContainsFunc(text, Hidden) && got != text {
				t.Fatalf("rule %d: harmless %q becomes %q", r, text, got)
			}
		}
		marked := inPieces(filter{mark: "12345"}, text, int(size)+1)
		if found := controls.FindString(passes[coloured].ReplaceAllString(marked, "")); found != "" || !strings.Contains(text, "\x1b[12345;") && strings.Contains(marked, "\x1b[") {
			t.Fatalf("with a mark %q becomes %q, with %q", text, marked, found)
		}
	})
}

// TestLogsQuote: the logs of `muster up`, of serve and of the agent need no filter.
func TestLogsQuote(t *testing.T) {
	var out bytes.Buffer
	hostile := "数据 \x1b]52;c;eA==\a\n\u009b2J\u202e\xff"
	slog.New(slog.NewTextHandler(&out, nil)).With(hostile, hostile).Warn(hostile, "error", errors.New(hostile))
	if text := strings.TrimSuffix(out.String(), "\n"); strings.ContainsFunc(text, Hidden) || !utf8.ValidString(text) || strings.Count(text, "]52;") != 4 {
		t.Errorf("logged %q", text)
	}
}

func TestGuard(t *testing.T) {
	var out, errs bytes.Buffer
	bare := Streams{Out: &out, Err: &errs}
	streams := bare.Guarded()
	style := Style{enabled: true, mark: markOf(streams.Out)}
	text := style.Paint(Red, "error:") + " \x1b[32m" + style.Paint(Bold, "\x1b[0m数据") + "\x1b"
	for i := range len(text) {
		if n, err := streams.Err.Write([]byte{text[i]}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	streams.Flush()
	if got, want := errs.String(), "\x1b[31merror:\x1b[0m \\x1b[32m\x1b[1m\\x1b[0m数据\x1b[0m\\x1b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if again := bare.Guarded(); markOf(again.Out) == style.mark || len(style.mark) < 10 {
		t.Errorf("two processes have marks %q and %q", style.mark, markOf(again.Out))
	}
	// A pipe gets data as it is; package cli tries a terminal.
	if _, err := Data(streams.Out).Write([]byte("\x1b[2J\xff")); err != nil || out.String() != "\x1b[2J\xff" {
		t.Errorf("data: %q, %v", out.String(), err)
	}
	if Bare(streams.Out) != bare.Out || Is(streams.Out) || streams.OutStyle().enabled {
		t.Error("a guard takes its stream for another")
	}
}
