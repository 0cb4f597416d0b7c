package account

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// maxFile bounds what is read of passwd and group, in bytes.
const maxFile = 16 << 20

// read returns the lines of a file of the folder, each cut to lineLimit bytes, and none
// of a file that cannot be read.
func (d *Directory) read(name string, lineLimit int) []string {
	found, err := readLines(d.options.Folder, name, lineLimit)
	if err != nil {
		return nil
	}
	return found
}

func readLines(folder, name string, lineLimit int) (_ []string, err error) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	file, err := osfile.OpenRegular(in, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := &lines{limit: lineLimit}
	if _, err := io.Copy(out, io.LimitReader(file, maxFile)); err != nil {
		return nil, err
	}
	return out.all(), nil
}

// local looks a uid up in the file passwd. Of two entries with a number or a login, the
// first counts, as for the C library.
func (d *Directory) local(uid uint32) (Account, bool) {
	var found Account
	known := false
	owner := map[string]uint32{}
	for _, line := range d.read("passwd", accountLine) {
		entry, okay := parseAccount(line)
		if !okay {
			continue
		}
		if _, there := owner[entry.Login]; !there {
			owner[entry.Login] = entry.UID
		}
		if entry.UID == uid && !known {
			found, known = entry, true
		}
	}
	if owner[found.Login] != uid {
		found.Login = ""
	}
	return found, known
}

// localMembership returns the groups of the file group that name a login.
func (d *Directory) localMembership(login string) []uint32 {
	var gids []uint32
	for _, line := range d.read("group", 1<<20) {
		group, okay := parseGroup(line)
		fields := strings.Split(line, ":")
		if okay && len(fields) == 4 && slices.Contains(strings.Split(fields[3], ","), login) {
			gids = append(gids, group.GID)
		}
	}
	return gids
}

// localGroups looks groups up in the file group.
func (d *Directory) localGroups(gids []uint32) []Group {
	names := map[uint32]string{}
	var entries []Group
	for _, line := range d.read("group", groupLine) {
		g, okay := parseGroup(line)
		if !okay {
			continue
		}
		entries = append(entries, g)
		if _, there := names[g.GID]; !there {
			names[g.GID] = g.Name
		}
	}
	return agree(gids, names, entries)
}
