package room

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/muster-dev/muster/internal/osfile"
)

// Bytes. etcd's log takes 64 MB, and 64 MB more for its next segment, except in the
// mode in which only removal works: its segments are of 4 MB then.
const (
	// Start is the free space for a start in an empty home, and for a reserve.
	Start = 256 << 20
	// Low is the free space below which only removal works.
	Low = 128 << 20
	// Least is the free space below which Muster releases the reserve.
	Least = 32 << 20
	// Bare is the free space below which Muster does not start etcd.
	Bare = 16 << 20
	// reserve is less than Low, so that its release alone does not end the mode.
	reserve = 64 << 20
)

// Inodes.
const (
	// LowInodes is the same as Low.
	LowInodes = 1024
	// LeastInodes is the same as Least.
	LeastInodes     = 128
	bareInodes      = 32
	startInodes     = 2048
	reservedInodes  = 256
	unlimitedInodes = -1
)

// reserveFolder is the name of the reserve in the home.
const reserveFolder = "reserve"

// Space is the free space of a disk.
type Space struct {
	// Dir is the folder that was measured.
	Dir string
	// Free are bytes that this user may still write; [math.MaxInt64] where the file
	// system does not say.
	Free int64
	// Inodes are files that can still be made; -1 where the file system has no limit.
	Inodes int64
}

// Look measures the disk that a folder is on.
func Look(dir string) (Space, error) {
	size, free, err := osfile.Space(dir)
	if err != nil {
		return Space{}, fmt.Errorf("measuring the disk of %s: %w", dir, err)
	}
	if size <= 0 { // a file system that does not say
		free = math.MaxInt64
	}
	total, inodes, err := osfile.Inodes(dir)
	if err != nil {
		return Space{}, fmt.Errorf("counting the inodes of the disk of %s: %w", dir, err)
	}
	if total <= 0 { // btrfs and others make inodes as they are needed
		inodes = unlimitedInodes
	}
	return Space{Dir: dir, Free: free, Inodes: inodes}, nil
}

func (s Space) below(bytes, inodes int64) bool {
	return s.Free < bytes || s.Inodes != unlimitedInodes && s.Inodes < inodes
}

// remedy is the advice to make room.
const remedy = "free some with `muster data rm` and `muster data gc`, `muster delete` or `muster prune`"

// Low reports whether only removal works.
func (s Space) Low() bool { return s.below(Low, LowInodes) }

// CanStart returns an error if etcd cannot start. fresh is true if it has no files yet.
func (s Space) CanStart(fresh bool) error {
	bytes, inodes := int64(Bare), int64(bareInodes)
	if fresh {
		bytes, inodes = Start, LowInodes
	}
	if !s.below(bytes, inodes) {
		return nil
	}
	return fmt.Errorf("the disk of %s is full: %s, %s needed: make room there, or give another data folder",
		s.Dir, s.left(), s.amount(bytes, inodes))
}

// left is the amount of the unit that is short: "40 MiB are free".
func (s Space) left() string { return s.amount(s.Free, s.Inodes) + " free" }

// amount is a number of the unit that is short, with its verb.
func (s Space) amount(bytes, inodes int64) string {
	if s.Free >= Low && s.Inodes != unlimitedInodes && s.Inodes < LowInodes {
		return fmt.Sprintf("%d inodes are", inodes)
	}
	return fmt.Sprintf("%d MiB are", bytes>>20)
}

// Words returns a sentence that only removal works; empty if the disk is not low.
func (s Space) Words() string {
	if !s.Low() {
		return ""
	}
	return fmt.Sprintf("the disk of %s is almost full (%s, Muster keeps %s for itself), so only removal works: %s",
		s.Dir, s.left(), strings.TrimSuffix(s.amount(Low, LowInodes), " are"), remedy)
}

// LowError refuses what would take room.
type LowError struct {
	// Space is the space that was left.
	Space Space
	// More are bytes that were to be stored.
	More int64
}

// Error implements error.
func (e *LowError) Error() string {
	if words := e.Space.Words(); words != "" {
		return words
	}
	return fmt.Sprintf("the disk of %s has no room for %d MiB more (%s, Muster keeps %d MiB for itself): %s",
		e.Space.Dir, e.More>>20, e.Space.left(), Low>>20, remedy)
}

// Is makes it a [syscall.ENOSPC].
func (e *LowError) Is(target error) bool { return target == syscall.ENOSPC }

// Check returns a [LowError] if the disk of a folder is low, or would be with more bytes
// on it. A disk that cannot be measured is not low.
func Check(dir string, more int64) error {
	if s, err := Look(dir); err == nil && s.below(Low+more, LowInodes) {
		return &LowError{Space: s, More: more}
	}
	return nil
}

// Tend measures the disk of a home. It releases the reserve if the disk is nearly full, and makes
// it if there is room. It returns the space that is left then.
func Tend(home string) (Space, error) {
	s, err := Look(home)
	if err != nil {
		return s, err
	}
	switch {
	case s.below(Least, LeastInodes):
		if err := giveUp(home); err != nil {
			return s, err
		}
		return Look(home)
	case !s.below(Start, startInodes):
		if err := keep(home); err != nil && !Full(err) {
			return s, err
		}
		return Look(home)
	}
	return s, nil
}

// Full reports whether an error is that of a full disk or quota.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// giveUp removes the reserve. The bytes go first.
func giveUp(home string) error {
	dir := filepath.Join(home, reserveFolder)
	if err := os.Remove(filepath.Join(dir, "bytes")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("releasing the reserve: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("releasing the reserve: %w", err)
	}
	return nil
}

// keep makes the reserve, unless it is there. A part of one is removed again.
func keep(home string) (err error) {
	dir := filepath.Join(home, reserveFolder)
	if info, err := os.Stat(filepath.Join(dir, "bytes")); err == nil && info.Size() == reserve {
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making the reserve: %w", err), giveUp(home))
		}
	}()
	if err := osfile.MakeFolder(dir, 0o700); err != nil {
		return err
	}
	for n := range reservedInodes {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, "bytes"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(osfile.Allocate(file, reserve), file.Close())
}
