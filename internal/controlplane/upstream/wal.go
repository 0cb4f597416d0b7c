package upstream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// checkLog reads etcd's write-ahead log before etcd does, which would "repair"
// some kinds of damage by cutting off all that follows, and does not say in
// which file the others are. A torn end, as a power cut leaves it, is etcd's to
// mend.
func checkLog(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		return err
	}
	snapshots := 0
	var crc uint32
	for i, path := range files {
		read, err := readLog(path, crc)
		snapshots += read.snapshots
		crc = read.crc
		torn := errors.Is(err, io.ErrUnexpectedEOF) && i == len(files)-1 && snapshots > 0
		if err != nil && !torn {
			return fmt.Errorf("the write-ahead log is damaged at byte %d of %s: %w", read.offset, filepath.Base(path), err)
		}
	}
	// Every log begins with one, of the empty beginning.
	if snapshots == 0 {
		return fmt.Errorf("the write-ahead log is damaged: the beginning of %s is missing", filepath.Base(files[0]))
	}
	return nil
}

// logRead is what was read of one file of the log.
type logRead struct {
	snapshots int
	// offset is the byte up to which the file can be read.
	offset int64
	// crc is the checksum that the next file goes on from.
	crc uint32
}

// readLog reads one file of the log, which goes on from the checksum of the one
// before; 0 for the first. It returns how far it came, also with an error.
func readLog(path string, crc uint32) (logRead, error) {
	var read logRead
	f, err := os.Open(path)
	if err != nil {
		return read, err
	}
	defer func() { _ = f.Close() }()
	decoder := wal.NewDecoder(logFile{f})
	decoder.UpdateCRC(crc)
	record := &walpb.Record{}
	for {
		read.offset, read.crc = decoder.LastOffset(), decoder.LastCRC()
		err := decoder.Decode(record)
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil {
			return read, err
		}
		switch record.GetType() {
		case wal.SnapshotType:
			read.snapshots++
		case wal.CrcType:
			if last := decoder.LastCRC(); last != 0 && record.Validate(last) != nil {
				return read, fmt.Errorf("it does not go on from what is before: %w", wal.ErrCRCMismatch)
			}
			decoder.UpdateCRC(record.GetCrc())
		}
	}
}

// logFile is a file as etcd's decoder wants it.
type logFile struct{ *os.File }

// FileInfo describes the file.
func (f logFile) FileInfo() (fs.FileInfo, error) { return f.Stat() }
