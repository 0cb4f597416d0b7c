package excerpt

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// numbered is a log of n bytes in which every eight bytes name their place.
func numbered(n int64) []byte {
	var out bytes.Buffer
	for i := int64(0); i < n; i += 8 {
		fmt.Fprintf(&out, "%7d\n", i/8)
	}
	return out.Bytes()[:n]
}

// TestOf: an excerpt is the whole log, or its two ends; a log that is written gives the same one,
// whatever the pieces are.
func TestOf(t *testing.T) {
	for _, size := range []int64{0, 1, first - 1, first, first + 9, Most - 1, Most, Most + 1, Most + 12345, 3*Most + 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			text := numbered(size)
			want := text
			if size > Most {
				want = append(append(text[:first:first], gap(size-Most, Most)...), text[size-(Most-first):]...)
			}
			in, length := Of(bytes.NewReader(text), size, Most)
			got, err := io.ReadAll(in)
			if err != nil || int64(len(got)) != length || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, said to be %d, want %d: %v", len(got), length, len(want), err)
			}
			folder := t.TempDir()
			log, err := New(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = log.Close() }()
			for left := text; len(left) > 0; {
				n := min(len(left), 1+rand.IntN(3<<20))
				if _, err := log.Write(left[:n]); err != nil {
					t.Fatal(err)
				}
				left = left[n:]
			}
			in, length = log.Read()
			got, err = io.ReadAll(iotest.HalfReader(in))
			if err != nil || int64(len(got)) != length || !bytes.Equal(got, want) {
				t.Fatalf("written: %d bytes, said to be %d, want %d: %v", len(got), length, len(want), err)
			}
			if info, err := log.file.Stat(); err != nil || info.Size() > Most {
				t.Errorf("its file has %d bytes, %v", info.Size(), err)
			}
			if list, err := os.ReadDir(folder); err != nil || len(list) > 0 {
				t.Errorf("its file has a name: %v, %v", list, err)
			}
		})
	}
}

func TestEnding(t *testing.T) {
	python := "loading\nTraceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    main()\nValueError: no labels\n"
	for name, c := range map[string]struct{ log, member, want string }{
		"nothing":           {"", "", ""},
		"blank":             {"\n \n\t\n", "", ""},
		"a line":            {"no such file\n", "", "no such file"},
		"the last three":    {"1\n2\n3\n4\n\n", "", "2 | 3 | 4"},
		"no newline":        {"1\n2", "", "1 | 2"},
		"an exception":      {python, "", `  File "train.py", line 9, in <module> |     main() | ValueError: no labels`},
		"behind it":         {python + "Terminated\nbye\nbye\n", "", `  File "train.py", line 9, in <module> |     main() | ValueError: no labels`},
		"two of them":       {python + strings.ReplaceAll(python, "labels", "pictures"), "", `  File "train.py", line 9, in <module> |     main() | ValueError: no pictures`},
		"control":           {"\x1b[31mred\x1b[0m\x07\x00 \x1b]0;title\x07\n50%\r100%\r\n", "", "red 0;title | 100%"},
		"not UTF-8":         {"a\xff\xfeb\n", "", "a?b"},
		"long":              {strings.Repeat("x", 300) + "\n", "", strings.Repeat("x", 200) + "..."},
		"longer than all":   {strings.Repeat("x", 20<<10) + "\nlast\n", "", "last"},
		"of a member":       {"worker-0 | why\nps-0     | other\nworker-1 | lost\n", "ps-0", "other"},
		"of a member, none": {"worker-0 | why\n", "worker-1", "worker-0 | why"},
		"names alike":       {"worker-1  | why\nworker-10 | other\n", "worker-1", "why"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Ending(strings.NewReader(c.log), int64(len(c.log)), c.member); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func FuzzEnding(f *testing.F) {
	f.Add([]byte("Traceback (most recent call last):\r\x1b[\n\xff"), "worker-0")
	f.Fuzz(func(t *testing.T, log []byte, name string) {
		got := Ending(bytes.NewReader(log), int64(len(log)), name)
		if most := endLines * (endBytes + 6); len(got) > most || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q has control characters, or more than %d bytes", got, most)
		}
	})
}
