//go:build linux

package environment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/environment/confinement"
)

// On a machine that several users share, a package of one user must not run in a job of another. Code of a
// package runs when the package is built, and can change what is installed beside it. So an environment is
// shared only if it has wheels alone, each pinned by its hash: no code runs in its build. Any other one is
// built as the user who asks for it, and its key has the user's number.

// ownerWord begins the input of a key that names a user. No path of a package begins so.
const ownerWord = "\x00owner "

// shareable reports whether the build of normalised requirements runs no code of a package, and gives the same
// files whoever asks.
func shareable(r Request, text string) bool {
	if r.Secret != "" || len(Locals(text)) > 0 {
		return false
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "--no-binary"):
			return false
		case strings.HasPrefix(line, "-"):
		case !strings.Contains(line, " --hash=sha256:") && !strings.Contains(line, " --hash=sha384:") && !strings.Contains(line, " --hash=sha512:"):
			return false
		}
	}
	return true
}

// only are the options of pip for wheels by their hashes.
func (b *build) only() []string {
	if !b.pinned {
		return nil
	}
	return []string{"--require-hashes", "--only-binary", ":all:"}
}

// mode is that of the environment's folder.
func (b *build) mode() os.FileMode {
	if b.user != nil {
		return 0o700
	}
	return 0o755
}

// give makes a file or folder that of the user of the build.
func (b *build) give(path string) error {
	if b.user == nil {
		return b.place.Give(path)
	}
	if err := os.Lchown(path, int(b.user.UID), int(b.user.GID)); err != nil {
		return fmt.Errorf("giving %s to user %d: %w", path, b.user.UID, err)
	}
	return nil
}

// giveAll is give for a folder with everything in it. The home of the environment is shut meanwhile.
func (b *build) giveAll(path string) error {
	if b.user == nil {
		return b.place.GiveAll(path)
	}
	return filepath.WalkDir(path, func(at string, _ os.DirEntry, err error) error {
		return errors.Join(err, b.give(at))
	})
}

// shut keeps the user out while Muster, as root, writes into folders of the build.
func (b *build) shut() error {
	if b.user == nil {
		return nil
	}
	return os.Chmod(b.home, 0o700)
}

// open lets the user pass to the folders of the build. From here on Muster writes nothing into them.
func (b *build) open() error {
	if b.user == nil {
		return nil
	}
	return os.Chmod(b.home, 0o711)
}

// ownerInput is the input of a key that names a user.
func ownerInput(u *confinement.User) string { return ownerWord + strconv.FormatUint(uint64(u.UID), 10) }
