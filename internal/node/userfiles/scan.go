package userfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// deepestScanned is the depth, in folders, to which a scan looks.
	deepestScanned = 16
	// mostScanned and mostScannedBytes bound one answer.
	mostScanned      = 5000
	mostScannedBytes = 32 << 20
)

// Scanned is an entry that a scan has found.
type Scanned struct {
	// Path is relative to the folder of the scan.
	Path string `json:"path"`
	// Device and Inode identify it on the machine.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Changed is the time at which it was last written, but not later than its last change of any kind,
	// which its owner cannot choose. Changed and Born are times in nanoseconds since 1970; Born is 0 if the file system does not know it.
	Changed int64 `json:"changed"`
	Born    int64 `json:"born,omitempty"`
	Size    int64 `json:"size"`
	// Regular is true for a file, and not for a folder, link or anything else.
	Regular bool `json:"regular,omitempty"`
}

// scan is the answer of one call.
type scan struct {
	List []Scanned `json:"list"`
	More bool      `json:"more"`
}

// Scan lists what is below a folder, after the first entries and at most so many, in the order of the file
// system. It reports whether there are more.
func (f *Files) Scan(ctx context.Context, p Place, skip, most int) ([]Scanned, bool, error) {
	_, file, err := f.helpers.do(ctx, f.user, f.helpers.options.Limit, request{Call: callScan, Place: p, Skip: skip, Most: min(most, mostScanned)}, nil)
	if err != nil {
		return nil, false, fmt.Errorf("scanning %w", err)
	}
	if file == nil {
		return nil, false, fmt.Errorf("scanning %s as user %d: the answer has no list", p, f.user.UID)
	}
	defer func() { _ = file.Close() }() // it is in memory
	text, err := io.ReadAll(io.NewSectionReader(file, 0, mostScannedBytes))
	if err != nil {
		return nil, false, fmt.Errorf("scanning %s: %w", p, err)
	}
	var answer scan
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, false, fmt.Errorf("scanning %s as user %d: %w", p, f.user.UID, err)
	}
	return answer.List, answer.More, nil
}

// scanning is a scan that goes on.
type scanning struct {
	scan
	skip, most int
	oneMount   bool
}

// scan runs in a helper, as the user. The list is too long for a message, so it is a file in memory.
func (p Place) scan(skip, most int) (*os.File, error) {
	fd, err := p.openFD(unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	s := &scanning{skip: skip, most: min(most, mostScanned), oneMount: p.OneMount}
	if err := s.folder(fd, "", 0); err != nil {
		return nil, err
	}
	text, err := json.Marshal(s.scan)
	if err != nil {
		return nil, err
	}
	number, err := unix.MemfdCreate("scan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(number), "scan")
	if _, err := memory.Write(text); err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return memory, nil
}

// folder lists an open folder, and closes it. Entries that are gone, or that the user cannot read, do not
// count.
func (s *scanning) folder(fd int, at string, depth int) error {
	folder := os.NewFile(uintptr(fd), at)
	defer func() { _ = folder.Close() }()
	for {
		list, err := folder.ReadDir(mostNames)
		for _, e := range list {
			if len(s.List) == s.most {
				s.More = true
				return nil
			}
			s.entry(fd, e, path.Join(at, e.Name()), depth)
		}
		if len(list) == 0 {
			if depth > 0 {
				return nil
			}
			return ignoreEnd(err)
		}
	}
}

func (s *scanning) entry(in int, e fs.DirEntry, at string, depth int) {
	if s.skip > 0 {
		s.skip--
	} else if found, ok := s.describe(in, e.Name()); ok {
		found.Path = at
		s.List = append(s.List, found)
	}
	if !e.IsDir() || depth == deepestScanned {
		return
	}
	if fd, err := openAt(in, e.Name(), s.how(unix.O_RDONLY|unix.O_DIRECTORY)); err == nil {
		_ = s.folder(fd, at, depth+1) // below the first folder there are no errors
	}
}

// how opens an entry: no link, and with OneMount no mount.
func (s *scanning) how(flags uint64) unix.OpenHow {
	how := unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_PATH != 0 {
		how.Flags &^= unix.O_NONBLOCK
	}
	if s.oneMount {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	return how
}

func (s *scanning) describe(in int, name string) (Scanned, bool) {
	fd, err := openAt(in, name, s.how(unix.O_PATH))
	if err != nil {
		return Scanned{}, false
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return Scanned{}, false
	}
	out := Scanned{
		Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino, Size: int64(st.Size),
		Changed: min(nanoseconds(st.Mtime), nanoseconds(st.Ctime)), Regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		out.Born = nanoseconds(st.Btime)
	}
	return out, true
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
