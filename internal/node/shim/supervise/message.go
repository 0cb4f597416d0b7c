package supervise

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/osfile"
)

// openMessage opens what the termination message is read from before a program of the container
// runs: the shim may be root, and programs may put links into paths.
func (s *supervisor) openMessage() *startError {
	var err error
	switch {
	case s.spec.TerminationMessagePath == "", s.spec.TerminationMessageAsUser: // opened when it is read, as the user
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
	case s.spec.TerminationMessageAsUser:
		return s.messageAsUser()
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

// messageAsUser reads the end of a file that the container's user may read: links lead to no other.
func (s *supervisor) messageAsUser() string {
	below, err := filepath.Rel(s.spec.TerminationMessageRoot, s.spec.TerminationMessagePath)
	if err != nil {
		return ""
	}
	helpers := s.helpers()
	defer helpers.Close()
	place := userfiles.Place{Base: s.spec.TerminationMessageRoot, Below: below}
	data, _, err := helpers.As(s.user()).Read(context.Background(), place, contract.MessageLimit)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}

// helpers start a process that works with files as another user: the shim's own program. Only before the
// root of the tree of files changes has it the path.
func (s *supervisor) helpers() *userfiles.Helpers {
	return userfiles.New(userfiles.Options{Program: "/proc/self/exe"})
}

// user is the container's user.
func (s *supervisor) user() userfiles.User {
	u := userfiles.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if inside := s.users(); inside != nil { // the credential has numbers of the container
		return userfiles.User{UID: inside.UID, GID: inside.GID}
	}
	if c := s.credential(); c != nil {
		u = userfiles.User{UID: c.Uid, GID: c.Gid, Groups: c.Groups}
	}
	return u
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
