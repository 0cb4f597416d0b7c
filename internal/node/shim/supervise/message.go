package supervise

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/osfile"
)

// openMessage opens what the termination message is read from before a program of the container
// runs: the shim may be root, and programs may put links into paths.
func (s *supervisor) openMessage() *startError {
	var err error
	switch {
	case s.spec.TerminationMessagePath == "":
	case s.spec.TerminationMessageFile != "":
		s.messageFile, err = os.OpenFile(s.spec.TerminationMessageFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	case s.spec.TerminationMessageRoot != "":
		s.messageRoot, err = os.OpenRoot(s.spec.TerminationMessageRoot + "/.") // a pipe is not waited for
	}
	if err != nil {
		return fault(contract.ReasonInternal, "opening the termination message: %v", err)
	}
	return nil
}

// message is the end of the termination message's file.
func (s *supervisor) message() string {
	switch {
	case s.spec.TerminationMessagePath == "":
		return ""
	case s.messageFile != nil:
		return lastOf(s.messageFile)
	case s.messageRoot != nil:
		below, err := filepath.Rel(s.spec.TerminationMessageRoot, s.spec.TerminationMessagePath)
		if err != nil {
			return ""
		}
		return messageBelow(s.messageRoot, below)
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		return ""
	}
	return messageBelow(root, strings.TrimPrefix(filepath.Clean(s.spec.TerminationMessagePath), "/"))
}

// messageBelow reads the end of a file below a folder, which it closes. It follows no link, and does
// not read a file with another name (hard link): that may be one of another user.
func messageBelow(in *os.Root, below string) string {
	names := strings.Split(below, "/")
	for _, name := range names[:len(names)-1] {
		next, err := osfile.OpenFolder(in, name)
		_ = in.Close()
		if err != nil {
			return ""
		}
		in = next
	}
	defer func() { _ = in.Close() }()
	file, err := osfile.OpenRegular(in, names[len(names)-1])
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || osfile.HasOtherNames(info) {
		return ""
	}
	return lastOf(file)
}

// lastOf is the end of a file.
func lastOf(file *os.File) string {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data := make([]byte, min(info.Size(), contract.MessageLimit))
	n, err := file.ReadAt(data, info.Size()-int64(len(data)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return strings.ToValidUTF8(string(data[:n]), "\uFFFD")
}
