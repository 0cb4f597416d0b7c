package userfiles

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// User is the identity of a helper. The kernel refuses root's rights to it.
type User struct {
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
}

// mostGroups is the number of supplementary groups that the kernel allows.
const mostGroups = 65536

// arguments are those of the helper's process.
func (u User) arguments() []string {
	groups := make([]string, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = strconv.FormatUint(uint64(g), 10)
	}
	return []string{strconv.FormatUint(uint64(u.UID), 10), strconv.FormatUint(uint64(u.GID), 10), strings.Join(groups, ",")}
}

// key is equal for equal users, whatever the order of their groups.
func (u User) key() string {
	u.Groups = slices.Compact(slices.Sorted(slices.Values(u.Groups)))
	return strings.Join(u.arguments(), " ")
}

func parseUser(args []string) (User, error) {
	if len(args) != 3 {
		return User{}, fmt.Errorf("%d arguments were given: give a user, a group and a list of groups", len(args))
	}
	uid, err := parseID(args[0])
	gid, failed := parseID(args[1])
	u := User{UID: uid, GID: gid}
	err = errors.Join(err, failed)
	for text := range strings.SplitSeq(args[2], ",") {
		if text == "" {
			continue
		}
		g, failed := parseID(text)
		u.Groups, err = append(u.Groups, g), errors.Join(err, failed)
	}
	return u, err
}

// parseID refuses the ID that stands for "no change" in calls of the kernel.
func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 1<<32-1 {
		return 0, fmt.Errorf("%q is no ID of a user or group: give a number from 0 to %d", text, uint32(1<<32-2))
	}
	return uint32(id), nil
}

// check refuses users that a helper cannot become.
func (u User) check() error {
	switch {
	case u.UID == 1<<32-1 || u.GID == 1<<32-1 || slices.Contains(u.Groups, 1<<32-1):
		return fmt.Errorf("4294967295 is no ID of a user or group: give a number from 0 to %d", uint32(1<<32-2))
	case len(u.Groups) > mostGroups:
		return fmt.Errorf("user %d has %d groups, and %d are allowed", u.UID, len(u.Groups), mostGroups)
	case os.Geteuid() != 0 && u.UID != uint32(os.Geteuid()):
		return fmt.Errorf("user %d, who runs Muster, cannot become user %d: run Muster as root", os.Geteuid(), u.UID)
	}
	return nil
}
