package userfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Files are the calls for one user. Errors of the kernel satisfy errors.Is, such as fs.ErrPermission. Where
// a file server hangs, or the user has stopped the helper, the error wraps context.DeadlineExceeded.
type Files struct {
	helpers *Helpers
	user    User
}

// User is the user of the calls.
func (f *Files) User() User { return f.user }

// Open opens a file or folder with flags of open(2), such as O_PATH, and describes it. A pipe is not waited
// for. With O_CREAT, mode is that of a new file. The caller should not ask the file itself about what it is:
// the file server may refuse root, or hang.
func (f *Files) Open(ctx context.Context, p Place, flags int, mode fs.FileMode) (*os.File, Info, error) {
	answer, file, err := f.helpers.do(ctx, f.user, f.helpers.options.Limit, request{Call: callOpen, Place: p, Flags: flags, Mode: uint32(mode.Perm())}, nil)
	if err != nil {
		return nil, Info{}, fmt.Errorf("opening %w", err)
	}
	if file == nil {
		return nil, Info{}, fmt.Errorf("opening %s as user %d: the answer has no file", p, f.user.UID)
	}
	return file, answer.Info, nil
}

// MakeAll makes a folder, and those above it. The mode is that of the last one, less the umask 0077; others
// have 0700. One that exists stays as it is.
func (f *Files) MakeAll(ctx context.Context, p Place, mode fs.FileMode) error {
	_, err := f.simple(ctx, "making", request{Call: callMake, Place: p, Mode: uint32(mode.Perm())})
	return err
}

// Stat describes a file.
func (f *Files) Stat(ctx context.Context, p Place) (Info, error) {
	answer, err := f.simple(ctx, "reading", request{Call: callStat, Place: p})
	if err != nil {
		return Info{}, err
	}
	return answer.Info, nil
}

// Read returns the end of a regular file, at most so many bytes and 64 KiB. It follows no link to the file.
func (f *Files) Read(ctx context.Context, p Place, most int) ([]byte, Info, error) {
	answer, err := f.simple(ctx, "reading", request{Call: callRead, Place: p, Most: most})
	if err != nil {
		return nil, Info{}, err
	}
	return answer.Data, answer.Info, nil
}

// List calls visit for each entry of a folder, in any order, until it returns an error.
func (f *Files) List(ctx context.Context, p Place, visit func(Entry) error) error {
	for seen := 0; ; {
		answer, err := f.simple(ctx, "listing", request{Call: callList, Place: p, Skip: seen})
		if err != nil {
			return err
		}
		if len(answer.Names) != len(answer.Types) || answer.More && len(answer.Names) == 0 {
			return fmt.Errorf("listing %s as user %d: the answer is not complete", p, f.user.UID)
		}
		for i, name := range answer.Names {
			if err := visit(Entry{Name: string(name), Type: answer.Types[i]}); err != nil {
				return err
			}
		}
		if seen += len(answer.Names); !answer.More {
			return nil
		}
	}
}

// Remove removes a file, or a folder with everything in it. One that is not there is no error.
func (f *Files) Remove(ctx context.Context, p Place) error {
	return f.tree(ctx, "removing", request{Call: callRemove, Place: p}, nil)
}

// Link makes a symbolic link to target, and the folders above it. A link that leads there already is left.
func (f *Files) Link(ctx context.Context, p Place, target string) error {
	_, err := f.simple(ctx, "linking", request{Call: callLink, Place: p, Target: target})
	return err
}

// Sub returns the place that a path below a folder leads to, without links in it, and makes a folder if it
// is not there, unless keep is set. Links that lead out of the folder are errors.
func (f *Files) Sub(ctx context.Context, p Place, keep bool) (Place, error) {
	answer, err := f.simple(ctx, "reading", request{Call: callSub, Place: p, Keep: keep})
	if err != nil {
		return Place{}, err
	}
	return answer.Place, answer.Place.check()
}

// Copy makes a folder hold the files, folders and links of an open folder, as files of the user's own,
// unless it exists. It has its name once it is whole.
func (f *Files) Copy(ctx context.Context, from *os.File, p Place) error {
	return f.tree(ctx, "copying to", request{Call: callCopy, Place: p}, from)
}

// Put makes a folder hold exactly the files of a payload, as [Payload.Put] does.
func (f *Files) Put(ctx context.Context, p Place, files Payload) (err error) {
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	if len(text) > mostPayload {
		return fmt.Errorf("writing %s: the files have %d bytes, and %d are allowed", p, len(text), mostPayload)
	}
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("writing %s: %w", p, err)
	}
	memory := os.NewFile(uintptr(fd), "payload")
	defer func() { err = errors.Join(err, memory.Close()) }()
	if _, err := memory.Write(text); err != nil {
		return fmt.Errorf("writing %s: %w", p, err)
	}
	return f.tree(ctx, "writing", request{Call: callReplace, Place: p}, memory)
}

func (f *Files) simple(ctx context.Context, what string, r request) (*reply, error) {
	return f.ask(ctx, f.helpers.options.Limit, what, r, nil)
}

func (f *Files) tree(ctx context.Context, what string, r request, with *os.File) error {
	_, err := f.ask(ctx, f.helpers.options.TreeLimit, what, r, with)
	return err
}

// ask makes a call that returns no file.
func (f *Files) ask(ctx context.Context, most time.Duration, what string, r request, with *os.File) (*reply, error) {
	answer, file, err := f.helpers.do(ctx, f.user, most, r, with)
	closeAll(some(file))
	if err != nil {
		return nil, fmt.Errorf("%s %w", what, err)
	}
	return answer, nil
}
