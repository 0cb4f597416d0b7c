package gpu

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxCommand is how much of a command line is told.
const maxCommand = 200

// describe fills in who owns a process and what it runs, as far as /proc at
// root tells. The command already known stays where /proc tells none: the
// process may be in another container, or gone.
func describe(root string, name func(uint32) string, p Process) Process {
	dir := filepath.Join(root, strconv.Itoa(p.PID))
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err == nil {
		p.User = name(stat.Uid)
	}
	if raw, err := begin(filepath.Join(dir, "cmdline")); err == nil && len(raw) > 0 {
		p.Command = string(bytes.ReplaceAll(bytes.TrimRight(raw, "\x00"), []byte{0}, []byte{' '}))
	} else if raw, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
		p.Command = strings.TrimSpace(string(raw))
	}
	p.Command, p.Server = printable(p.Command), ofMPS(dir)
	return p
}

// begin reads the beginning of a file: a command line may have megabytes.
func begin(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxCommand*utf8.UTFMax))
}

// printable cuts a command line to size and keeps what would move a cursor or
// colour a terminal out of it: it is somebody else's text.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	if runes := []rune(s); len(runes) > maxCommand {
		return string(runes[:maxCommand-1]) + "…"
	}
	return s
}

// byNumber names a user by the uid alone.
func byNumber(uid uint32) string { return "uid " + strconv.FormatUint(uint64(uid), 10) }

// sortProcesses orders by PID and joins entries of one process: the driver
// tells a process that computes and draws twice.
func sortProcesses(list []Process) []Process {
	slices.SortStableFunc(list, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(b.MemoryMiB, a.MemoryMiB))
	})
	return slices.CompactFunc(list, func(a, b Process) bool { return a.PID == b.PID })
}
