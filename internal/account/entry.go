package account

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxName bounds a login or the name of a group, in bytes.
	maxName = 256
	// maxPath bounds a home and a shell, in bytes.
	maxPath = 4096
	// accountLine and groupLine bound what is read of an entry, in bytes. The members of
	// a group come last and are not needed.
	accountLine, groupLine = 16 << 10, 4 << 10
)

// parseAccount reads a line of passwd; false for anything else.
func parseAccount(line string) (Account, bool) {
	fields := strings.Split(line, ":")
	if len(line) >= accountLine || len(fields) != 7 {
		return Account{}, false
	}
	uid, okay := parseID(fields[2])
	gid, also := parseID(fields[3])
	if !okay || !also {
		return Account{}, false
	}
	return Account{UID: uid, GID: gid, Login: usableName(fields[0]), Home: usablePath(fields[5]), Shell: usablePath(fields[6])}, true
}

// parseGroup reads the beginning of a line of group; false for anything else.
func parseGroup(line string) (Group, bool) {
	fields := strings.SplitN(line, ":", 4)
	if len(fields) != 4 {
		return Group{}, false
	}
	gid, okay := parseID(fields[2])
	return Group{GID: gid, Name: usableName(fields[0])}, okay
}

// parseID reads the number of a user or group. The highest one means "none" to the
// kernel.
func parseID(s string) (uint32, bool) {
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err == nil && id != 1<<32-1
}

// usableName returns a name that can be shown and sent in a header, or nothing. Names
// of Active Directory have spaces, backslashes and @.
func usableName(s string) string {
	if len(s) > maxName || s != strings.TrimSpace(s) || strings.HasPrefix(s, "-") || strings.ContainsAny(s, ":,/") || !printable(s) {
		return ""
	}
	if strings.Trim(s, "0123456789") == "" {
		return "" // getent, and people, read it as a number
	}
	return s
}

// usablePath returns an absolute path, or nothing.
func usablePath(s string) string {
	if len(s) > maxPath || !path.IsAbs(s) || !printable(s) {
		return ""
	}
	return s
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
