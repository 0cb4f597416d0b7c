package contract

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 60, time.UTC)

// frame feeds pieces to a Framer and returns its entries as "F|P text".
func frame(t testing.TB, pieces ...string) []string {
	t.Helper()
	f := Framer{Stream: Stdout}
	var out []byte
	for _, p := range pieces {
		out = f.Append(out, now, []byte(p))
	}
	out = f.Flush(out, now)
	var got []string
	for line := range bytes.Lines(out) {
		e, ok := ParseEntry(bytes.TrimSuffix(line, []byte{'\n'}))
		if !ok || !e.Time.Equal(now) || e.Stream != Stdout {
			t.Fatalf("%q is no entry", line)
		}
		mark := "F "
		if e.Partial {
			mark = "P "
		}
		got = append(got, mark+string(e.Text))
	}
	return got
}

func TestFramer(t *testing.T) {
	long := strings.Repeat("x", FragmentLimit)
	for _, c := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"nothing", nil, nil},
		{"a line", []string{"a\n"}, []string{"F a"}},
		{"lines", []string{"a\nb\n\nc\n"}, []string{"F a", "F b", "F ", "F c"}},
		{"a line in pieces", []string{"a", "b", "c\nd", "\n"}, []string{"F abc", "F d"}},
		{"no end", []string{"a\nb"}, []string{"F a", "P b"}},
		{"exactly as long as may be", []string{long + "\n"}, []string{"F " + long}},
		{"one longer", []string{long + "y\n"}, []string{"P " + long, "F y"}},
		{"one longer in pieces", []string{long, "y", "\n"}, []string{"P " + long, "F y"}},
		{"much longer", []string{long + long + long[:3], "\nz\n"}, []string{"P " + long, "P " + long, "F xxx", "F z"}},
		{"carriage returns stay", []string{"1%\r2%\r\n"}, []string{"F 1%\r2%\r"}},
		{"any bytes", []string{"\x00\xff stdout F \n"}, []string{"F \x00\xff stdout F "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, frame(t, c.pieces...)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlushThenEnd(t *testing.T) {
	f := Framer{Stream: Stderr}
	out := f.Append(nil, now, []byte("10%"))
	if !f.Holding() {
		t.Error("nothing is held back")
	}
	out = f.Flush(out, now)
	if f.Holding() || len(f.Flush(nil, now)) > 0 {
		t.Error("something is held back after Flush")
	}
	out = f.Append(out, now, []byte("\n"))
	want := "2026-01-02T03:04:05.000000060Z stderr P 10%\n2026-01-02T03:04:05.000000060Z stderr F \n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestParseEntryRefuses(t *testing.T) {
	for _, line := range []string{
		"", "x", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z stdout", "2026-01-02T03:04:05Z stdout F",
		"2026-01-02T03:04:05Z stdin F x", "2026-01-02T03:04:05Z stdout X x", "yesterday stdout F x", "2026-01-02T03:04:05Z stdout Fx",
	} {
		if e, ok := ParseEntry([]byte(line)); ok {
			t.Errorf("ParseEntry(%q) = %+v", line, e)
		}
	}
}

// FuzzFramer checks that no byte is lost or changed, however the output is cut.
func FuzzFramer(f *testing.F) {
	f.Add([]byte("a\nb"), 1)
	f.Add([]byte("\n\n\x00"), 2)
	f.Add(bytes.Repeat([]byte("x"), FragmentLimit+1), 4096)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(1, cut)
		var pieces []string
		for rest := data; len(rest) > 0; {
			n := min(cut, len(rest))
			pieces = append(pieces, string(rest[:n]))
			rest = rest[n:]
		}
		var back strings.Builder
		for _, e := range frame(t, pieces...) {
			if len(e) > FragmentLimit+2 {
				t.Fatalf("an entry of %d bytes", len(e)-2)
			}
			back.WriteString(e[2:])
			if e[0] == 'F' {
				back.WriteByte('\n')
			}
		}
		if back.String() != string(data) {
			t.Errorf("%q came back as %q", data, back.String())
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05.000000060Z stdout F text"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := ParseEntry(line)
		if !ok || bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		again, ok := ParseEntry(bytes.TrimSuffix(AppendEntry(nil, e), []byte{'\n'}))
		if !ok || !again.Time.Equal(e.Time) || again.Stream != e.Stream || again.Partial != e.Partial || !bytes.Equal(again.Text, e.Text) {
			t.Errorf("%q became %+v", line, again)
		}
	})
}

func TestLogNames(t *testing.T) {
	for _, n := range []int{1, 2, 99999999, 100000000} {
		if got := LogNumber(LogName(n)); got != n {
			t.Errorf("LogNumber(LogName(%d)) = %d", n, got)
		}
	}
	for _, name := range []string{"", ".log", "x.log", "0.log", "-1.log", "00000001", "00000001.log.gz"} {
		if got := LogNumber(name); got != 0 {
			t.Errorf("LogNumber(%q) = %d, want 0", name, got)
		}
	}
}

func BenchmarkFramer(b *testing.B) {
	data := bytes.Repeat([]byte("a line of fifty characters, more or less, in all\n"), 650)
	f := Framer{Stream: Stdout}
	var out []byte
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		out = f.Append(out[:0], now, data)
	}
}
