package room

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/osfile/disktest"
)

func tend(t *testing.T, dir string) Space {
	t.Helper()
	s, err := Tend(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBytes: the reserve is made where there is room, and gives etcd room on a disk that
// others have filled to the last byte.
func TestBytes(t *testing.T) {
	dir := disktest.New(t, "size=400m")
	s := tend(t, dir)
	if free := s.Free >> 20; free < 330 || free > 336 || s.Low() || s.Words() != "" || Check(dir, 0) != nil {
		t.Errorf("%d MiB are free beside a reserve of 64 MiB; %q", free, s.Words())
	}
	if err := Check(dir, 300<<20); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "300 MiB more") {
		t.Errorf("300 MiB more: %v", err)
	}
	filler, err := disktest.Fill(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Space{Dir: dir}).CanStart(false); err == nil || !strings.Contains(err.Error(), "0 MiB are free, 16 MiB are needed") {
		t.Errorf("without a reserve: %v", err)
	}
	s = tend(t, dir)
	if s.Free < 60<<20 || s.CanStart(false) != nil || s.CanStart(true) == nil {
		t.Errorf("%+v after the reserve was given up", s)
	}
	err = Check(dir, 0)
	if !strings.Contains(s.Words(), "only removal works") || err == nil || err.Error() != s.Words() {
		t.Errorf("%q, %v", s.Words(), err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if s := tend(t, dir); s.Low() || s.Free>>20 > 336 {
		t.Errorf("%+v with room again: the reserve is there", s)
	}
}

// TestInodes: a disk without inodes is full, too, however many bytes are free.
func TestInodes(t *testing.T) {
	dir := disktest.New(t, "size=400m,nr_inodes=4000")
	tend(t, dir)
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
	}
	if !Full(err) {
		t.Fatal(err)
	}
	s := tend(t, dir)
	if s.Inodes < 250 || s.CanStart(false) != nil || !s.Low() {
		t.Errorf("%+v after the reserve was given up", s)
	}
	if err := Check(dir, 0); err == nil || !strings.Contains(err.Error(), "inodes are free, Muster keeps 1024 inodes for itself") {
		t.Errorf("%v", err)
	}
}

// TestTendTwice: a reserve that is there is left alone, and a part of one is completed.
func TestTendTwice(t *testing.T) {
	dir := disktest.New(t, "size=400m")
	first := tend(t, dir)
	if again := tend(t, dir); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	if err := os.Truncate(filepath.Join(dir, reserveFolder, "bytes"), 1); err != nil {
		t.Fatal(err)
	}
	if again := tend(t, dir); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// TestSizeNotSaid: a file system without a size, as some of networks are, is not full.
func TestSizeNotSaid(t *testing.T) {
	s, err := Look("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if s.Low() || Check("/proc", 1<<40) != nil {
		t.Errorf("it counts as full: %+v", s)
	}
}
