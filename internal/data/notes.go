package data

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// settled is how much older than a note a file's times have to be: one that was
// written in the moment in which it was read could be written again without its
// times being others.
const settled = 2 * time.Second

// stamp is by what an unchanged file is told.
type stamp struct {
	size, mtime, ctime int64
	ino, dev           uint64
	mode               uint32
}

// stampOf returns the stamp of an open file.
func stampOf(file *os.File) (stamp, error) {
	info, err := file.Stat()
	if err != nil {
		return stamp{}, err
	}
	return stampOfInfo(info), nil
}

func (s stamp) executable() bool { return s.mode&0o100 != 0 }

// before says that everything in it is from before a time.
func (s stamp) before(t time.Time) bool { return max(s.mtime, s.ctime) < t.UnixNano() }

// noted is one file in the notes of a folder.
type noted struct {
	path    string
	stamp   stamp
	content digest.ID
	list    bool
}

const notesMagic = "MUSTERN1"

// notesWriter writes down what the files of a folder were when they were put. A nil
// one writes nothing. Notes that cannot be written are left out: they only save
// time.
type notesWriter struct {
	path, temp string
	file       *os.File
	out        *bufio.Writer
	sum        hash.Hash
	to         string
	buf        []byte
	failed     bool
}

// notesPath is where the notes of a folder are, empty where there are none.
func (s *Store) notesPath(folder string) string {
	if s.cache == "" {
		return ""
	}
	name := sha256.Sum256([]byte(folder))
	return filepath.Join(s.cache, "notes", hex.EncodeToString(name[:16]))
}

// writeNotes begins the notes of a folder, whose paths are below to in the dataset.
func (s *Session) writeNotes(folder, to string) *notesWriter {
	path := s.store.notesPath(folder)
	if path == "" || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return nil
	}
	temp := path + "." + rand.Text()
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	n := &notesWriter{path: path, temp: temp, file: file, to: to, sum: sha256.New()}
	n.out = bufio.NewWriterSize(io.MultiWriter(file, n.sum), 64<<10)
	n.buf = append(n.buf, notesMagic...)
	n.buf = binary.LittleEndian.AppendUint64(n.buf, uint64(time.Now().UnixNano()))
	n.write()
	s.notes = append(s.notes, n)
	return n
}

func (n *notesWriter) write() {
	if _, err := n.out.Write(n.buf); err != nil {
		n.failed = true
	}
	n.buf = n.buf[:0]
}

// add notes a file. Links are not worth it.
func (n *notesWriter) add(it *item) {
	if n == nil || n.failed || it.file == "" || it.entry.Kind != tree.File {
		return
	}
	path := it.entry.Path[len(n.to):]
	n.buf = binary.AppendUvarint(n.buf, uint64(len(path)))
	n.buf = append(n.buf, path...)
	st := &it.stamp
	for _, v := range []uint64{uint64(st.size), uint64(st.mtime), uint64(st.ctime), st.ino, st.dev, uint64(st.mode)} {
		n.buf = binary.AppendUvarint(n.buf, v)
	}
	list := byte(0)
	if it.entry.List {
		list = 1
	}
	n.buf = append(append(n.buf, list), it.entry.Content[:]...)
	n.write()
}

// keep puts the notes in place of those before.
func (n *notesWriter) keep() {
	n.buf = binary.AppendUvarint(n.buf[:0], 0)
	n.write()
	err := n.out.Flush()
	if err == nil {
		_, err = n.file.Write(n.sum.Sum(nil))
	}
	if err = errors.Join(err, n.file.Close()); err != nil || n.failed || os.Rename(n.temp, n.path) != nil {
		_ = os.Remove(n.temp)
	}
	n.file = nil
}

func (n *notesWriter) drop() {
	if n.file != nil {
		_ = n.file.Close()
		_ = os.Remove(n.temp)
	}
}

func (s *Session) keepNotes() {
	for _, n := range s.notes {
		n.keep()
	}
}

// notesReader reads notes in order. A nil one has none.
type notesReader struct {
	file  *os.File
	in    *bufio.Reader
	taken time.Time
	next  noted
	more  bool
}

// readNotes opens the notes of a folder, nil where there are none that can be read.
func (s *Store) readNotes(folder string) *notesReader {
	path := s.notesPath(folder)
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	n := &notesReader{file: file}
	if !whole(file) {
		n.close()
		return nil
	}
	n.in = bufio.NewReaderSize(file, 64<<10)
	var head [len(notesMagic) + 8]byte
	if _, err := io.ReadFull(n.in, head[:]); err != nil || string(head[:len(notesMagic)]) != notesMagic {
		n.close()
		return nil
	}
	n.taken = time.Unix(0, int64(binary.LittleEndian.Uint64(head[len(notesMagic):])))
	n.advance()
	return n
}

// whole says that notes end with the hash of what they are, and rewinds them.
func whole(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() < sha256.Size {
		return false
	}
	sum, end := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyN(sum, file, info.Size()-sha256.Size); err != nil {
		return false
	}
	if _, err := io.ReadFull(file, end); err != nil || !bytes.Equal(sum.Sum(nil), end) {
		return false
	}
	_, err = file.Seek(0, io.SeekStart)
	return err == nil
}

func (n *notesReader) close() {
	if n != nil {
		_ = n.file.Close()
	}
}

// find is the note of a path; paths are asked for in order.
func (n *notesReader) find(path string) (noted, bool) {
	if n == nil {
		return noted{}, false
	}
	for n.more && n.next.path < path {
		n.advance()
	}
	return n.next, n.more && n.next.path == path
}

// trusted says that a file with a stamp is as it was noted.
func (n *notesReader) trusted(found noted, st stamp) bool {
	return found.stamp == st && st.before(n.taken.Add(-settled))
}

func (n *notesReader) advance() {
	n.more = false
	length, err := binary.ReadUvarint(n.in)
	if err != nil || length == 0 || length > tree.MaxPath {
		return
	}
	path := make([]byte, length)
	if _, err := io.ReadFull(n.in, path); err != nil {
		return
	}
	var v [6]uint64
	for i := range v {
		if v[i], err = binary.ReadUvarint(n.in); err != nil {
			return
		}
	}
	var rest [1 + digest.Size]byte
	if _, err := io.ReadFull(n.in, rest[:]); err != nil {
		return
	}
	n.next = noted{
		path: string(path), list: rest[0] == 1, content: digest.ID(rest[1:]),
		stamp: stamp{size: int64(v[0]), mtime: int64(v[1]), ctime: int64(v[2]), ino: v[3], dev: v[4], mode: uint32(v[5])},
	}
	n.more = true
}
