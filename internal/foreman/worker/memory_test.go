package worker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemory: a program that the kernel killed for lack of memory fails with that reason, the limit
// and the peak, and only then.
func TestMemory(t *testing.T) {
	v1 := map[string]string{"memory.limit_in_bytes": "62914560\n", "memory.max_usage_in_bytes": "62914560\n"}
	for _, c := range []struct {
		name, group, dir, kills string
		files                   map[string]string
		want                    string
	}{
		{"version 1", "4:memory:/muster/a\n0::/\n", "memory/muster/a", "memory.oom_control", v1,
			"OOM killed: the program needs more memory than its limit of 60.0 MiB (peak 60.0 MiB); raise the stage's memory limit (signal: killed)"},
		{"version 2", "0::/muster/a\n", "muster/a", "memory.events", map[string]string{"memory.max": "1073741824\n", "memory.peak": "1000000000\n"},
			"OOM killed: the program needs more memory than its limit of 1024.0 MiB (peak 953.7 MiB); raise the stage's memory limit (signal: killed)"},
		{"a namespace of its own, an old kernel", "0::/kubepods/x\n", ".", "memory.events", map[string]string{"memory.max": "1048576\n"},
			"OOM killed: the program needs more memory than its limit of 1.0 MiB; raise the stage's memory limit (signal: killed)"},
		{"no limit", "0::/\n", ".", "memory.events", map[string]string{"memory.max": "max\n"}, "OOM killed: the machine had no memory left (signal: killed)"},
		{"no group", "5:cpu:/\n", "cpu", "none", nil, "signal: killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mount := t.TempDir()
			dir := filepath.Join(mount, c.dir)
			write := func(name, text string) {
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range c.files {
				write(name, text)
			}
			write(c.kills, "oom 3\noom_kill 2\n")
			m := memoryOf(c.group, mount)
			killed := errors.New("signal: killed")
			if got := m.explain(killed); !errors.Is(got, killed) || got.Error() != killed.Error() {
				t.Errorf("before: %v", got)
			}
			write(c.kills, "oom 4\noom_kill 3\n")
			var log strings.Builder
			if got := m.tell(&log, killed); got.Error() != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if want := "muster: " + c.want + "\n"; log.String() != want && m.dir != "" {
				t.Errorf("the log has %q, want %q", log.String(), want)
			}
			write(c.kills, "oom 5\noom_kill 4\n")
			if got := m.explain(nil); got != nil {
				t.Errorf("one that went well: %v", got)
			}
			if got := m.explain(killed); got.Error() != killed.Error() {
				t.Errorf("the next one: %v", got)
			}
		})
	}
}
