package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// writeLog writes a log folder as a shim would, one file for each list.
func writeLog(t testing.TB, first int, files ...[]contract.Entry) string {
	t.Helper()
	dir := t.TempDir()
	for i, entries := range files {
		var data []byte
		for _, e := range entries {
			data = contract.AppendEntry(data, e)
		}
		if err := os.WriteFile(filepath.Join(dir, contract.LogName(first+i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// line is an entry at so many seconds after epoch. A text that ends with "~"
// is partial.
func line(second int, text string) contract.Entry {
	stream := contract.Stdout
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		stream, text = contract.Stderr, rest
	}
	text, partial := strings.CutSuffix(text, "~")
	return contract.Entry{Time: epoch.Add(time.Duration(second) * time.Second), Stream: stream, Partial: partial, Text: []byte(text)}
}

func TestLogQuery(t *testing.T) {
	dir := writeLog(t, 7,
		[]contract.Entry{line(1, "a"), line(2, "!b"), line(3, "c1~")},
		[]contract.Entry{line(4, "c2"), line(5, "")},
		[]contract.Entry{line(6, "d"), line(7, "e1~"), line(8, "e2~")})
	for _, c := range []struct {
		name string
		q    LogQuery
		want string
	}{
		{"all", LogQuery{Tail: -1}, "a\nb\nc1c2\n\nd\ne1e2"},
		{"none", LogQuery{Tail: 0}, ""},
		{"tail 1", LogQuery{Tail: 1}, "e1e2"},
		{"tail 2", LogQuery{Tail: 2}, "d\ne1e2"},
		{"tail 3", LogQuery{Tail: 3}, "\nd\ne1e2"},
		{"tail 4", LogQuery{Tail: 4}, "c1c2\n\nd\ne1e2"},
		{"tail 5", LogQuery{Tail: 5}, "b\nc1c2\n\nd\ne1e2"},
		{"tail 6", LogQuery{Tail: 6}, "a\nb\nc1c2\n\nd\ne1e2"},
		{"tail 600", LogQuery{Tail: 600}, "a\nb\nc1c2\n\nd\ne1e2"},
		{"since", LogQuery{Tail: -1, Since: epoch.Add(5 * time.Second)}, "\nd\ne1e2"},
		{"since later", LogQuery{Tail: -1, Since: epoch.Add(time.Hour)}, ""},
		{"tail and since", LogQuery{Tail: 3, Since: epoch.Add(6 * time.Second)}, "d\ne1e2"},
		{"bytes", LogQuery{Tail: -1, LimitBytes: 5}, "a\nb\nc"},
		{"timestamps", LogQuery{Tail: 2, Timestamps: true}, "2026-01-02T03:04:11Z d\n2026-01-02T03:04:12Z e1e2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenLogs(dir, c.q)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			got, err := io.ReadAll(r)
			if err != nil || string(got) != c.want {
				t.Errorf("read %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestTailOfLongLog(t *testing.T) {
	// Longer than the windows that are searched, with lines longer than one.
	var entries []contract.Entry
	var want []string
	for i := range 3000 {
		text := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%200))
		entries = append(entries, line(i, text))
		want = append(want, text+"\n")
	}
	long := strings.Repeat("y", contract.FragmentLimit)
	for range 20 {
		entries = append(entries, line(4000, long+"~"))
	}
	entries = append(entries, line(4000, "end"))
	want = append(want, strings.Repeat(long, 20)+"end\n")
	dir := writeLog(t, 1, entries)
	for _, tail := range []int{1, 2, 10, 1000, 3000, 3001, 3002} {
		r, err := OpenLogs(dir, LogQuery{Tail: tail})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		_ = r.Close()
		if expected := strings.Join(want[max(0, len(want)-tail):], ""); err != nil || string(got) != expected {
			t.Errorf("tail %d: %d bytes, %v, want %d", tail, len(got), err, len(expected))
		}
	}
}

func TestOpenLogsErrors(t *testing.T) {
	if _, err := OpenLogs(filepath.Join(t.TempDir(), "none"), LogQuery{}); !os.IsNotExist(unwrap(err)) {
		t.Errorf("OpenLogs = %v, want that it does not exist", err)
	}
	// What a full disk has cut short is left out.
	dir := writeLog(t, 1, []contract.Entry{line(1, "a")})
	path := filepath.Join(dir, contract.LogName(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, "2026-01-02T03:0\n"...)
	data = append(data, data[:20]...)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenLogs(dir, LogQuery{Tail: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if got, err := io.ReadAll(r); err != nil || string(got) != "a\n" {
		t.Errorf("read %q, %v", got, err)
	}
}

func unwrap(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil || os.IsNotExist(err) {
			return err
		}
		err = inner.Unwrap()
	}
}

func TestFollow(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		gate := filepath.Join(t.TempDir(), "gate")
		p := start(t, newRuntime(t), shell("echo one; printf 'progress 1'; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo ' done'", tier))
		logs, err := p.Logs(t.Context(), LogQuery{Follow: true, Tail: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = logs.Close() }()
		// A line that has no end yet is shown all the same.
		buf := make([]byte, len("one\nprogress 1"))
		if _, err := io.ReadFull(logs, buf); err != nil || string(buf) != "one\nprogress 1" {
			t.Fatalf("read %q, %v", buf, err)
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(logs)
		if err != nil || string(rest) != " done\n" {
			t.Errorf("read %q, %v", rest, err)
		}
		wait(t, p)
		// After the end too, following ends where the output does.
		if got := readLogs(t, p, LogQuery{Follow: true, Tail: 1}); got != "progress 1 done\n" {
			t.Errorf("read %q", got)
		}
	})
}

// TestAGapIsTold drops files that a slow reader has not come to yet.
func TestAGapIsTold(t *testing.T) {
	dir := writeLog(t, 1, []contract.Entry{line(1, "a")}, []contract.Entry{line(2, "b")}, []contract.Entry{line(3, "c")}, []contract.Entry{line(4, "d")})
	r, err := openEntries(dir, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	var got []string
	for {
		e, err := r.next(true)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Text))
		if len(got) == 1 {
			for _, number := range []int{2, 3} {
				if err := os.Remove(filepath.Join(dir, contract.LogName(number))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	want := []string{"a", "[muster: output is missing here: 2 log file(s) were dropped before they could be read]", "d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	p := start(t, newRuntime(t), shell("exec sleep 600"))
	ctx, cancel := context.WithCancel(t.Context())
	for name, end := range map[string]func(io.Closer){
		"close":   func(c io.Closer) { _ = c.Close() },
		"context": func(io.Closer) { cancel() },
	} {
		logs, err := p.Logs(ctx, LogQuery{Follow: true, Tail: -1})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := io.ReadAll(logs)
			done <- err
		}()
		if name == "close" {
			end(logs)
		} else {
			end(nil)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s does not end a Read", name)
		}
		_ = logs.Close()
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}

func TestRotation(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		const total = 20000
		p := start(t, newRuntime(t), shell(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done", total), tier, func(s *Spec) {
			s.Log = LogLimits{MaxBytes: 64 << 10, MaxFiles: 3}
		}))
		// A follower sees the lines in their order, and is told where it was
		// too slow for some.
		logs, err := p.Logs(t.Context(), LogQuery{Follow: true, Tail: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = logs.Close() }()
		scanner := bufio.NewScanner(logs)
		last, seen, told := -1, 0, true // it may begin late
		for scanner.Scan() {
			if strings.HasPrefix(scanner.Text(), "[muster: output is missing here") {
				told = true
				continue
			}
			var n int
			if _, err := fmt.Sscanf(scanner.Text(), "line %d", &n); err != nil || n <= last || (n > last+1 && !told) {
				t.Fatalf("after line %d: %q", last, scanner.Text())
			}
			last, seen, told = n, seen+1, false
		}
		if last != total-1 || seen < total/20 {
			t.Errorf("saw %d lines, the last %d", seen, last)
		}
		wait(t, p)
		size, files := logSize(t, p)
		if files != 3 || size > 3*(64<<10) {
			t.Errorf("%d files of %d bytes in all, want 3 of at most 64 KiB", files, size)
		}
		if got := readLogs(t, p, LogQuery{Tail: 2}); got != fmt.Sprintf("line %d\nline %d\n", total-2, total-1) {
			t.Errorf("tail = %q", got)
		}
	})
}

func logSize(t testing.TB, p *Process) (size int64, files int) {
	t.Helper()
	entries, err := os.ReadDir(p.LogDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size, len(entries)
}

func TestMuchOutput(t *testing.T) {
	bytes := 1_000_000_000
	if testing.Short() {
		bytes = 100_000_000
	}
	p := start(t, newRuntime(t), shell(fmt.Sprintf("yes 'a line of fifty characters, more or less, in all' | head -c %d; echo end", bytes)))
	wait(t, p)
	t.Logf("%d bytes took %v", bytes, p.Exit().FinishedAt.Sub(p.StartedAt()))
	size, files := logSize(t, p)
	if limit := int64(5 * 10 << 20); size > limit || files > 5 {
		t.Errorf("%d files of %d bytes in all, want at most 5 of %d", files, size, limit)
	}
	if got := readLogs(t, p, LogQuery{Tail: 1}); !strings.HasSuffix(got, "end\n") {
		t.Errorf("tail = %q", got)
	}
}
