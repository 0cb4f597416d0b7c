package owner

import (
	"math"
	"strconv"
	"strings"
)

// prefix begins the namespaces of users.
const prefix = "u-"

// overflow is the default overflow uid of Linux.
const overflow = 65534

// Of returns the uid of the user whose namespace this is; false: it is no user's.
func Of(namespace string) (uid uint32, ok bool) {
	digits, found := strings.CutPrefix(namespace, prefix)
	if !found {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || !User(uint32(n)) || Namespace(uint32(n)) != namespace {
		return 0, false
	}
	return uint32(n), true
}

// Namespace returns the namespace of a user, and nothing for a number that is no user.
func Namespace(uid uint32) string {
	if !User(uid) {
		return ""
	}
	return prefix + strconv.FormatUint(uint64(uid), 10)
}

// User is true for a number that stands for one user.
func User(uid uint32) bool { return uid != overflow && uid != math.MaxUint32 }
