package visibility

import (
	"strconv"
	"strings"
)

// The names of a user of the machine in the API.
const (
	namespacePrefix = "u-"
	userPrefix      = "unix:"
)

// Logins names users of the machine. Nil, as on a cluster, names nobody.
type Logins func(uid uint32) string

// OfNamespace returns the login of the user whose namespace, or queue, this is; false
// for a namespace of no user.
func (l Logins) OfNamespace(namespace string) (string, bool) {
	return l.cut(namespacePrefix, namespace)
}

// OfUser returns the login of a user of the API, or the name as it is.
func (l Logins) OfUser(name string) string {
	if login, is := l.cut(userPrefix, name); is {
		return login
	}
	return name
}

func (l Logins) cut(prefix, name string) (string, bool) {
	number, is := strings.CutPrefix(name, prefix)
	uid, err := strconv.ParseUint(number, 10, 32)
	// Other spellings of a number, such as 007, are no names of users.
	if l == nil || !is || err != nil || strconv.FormatUint(uid, 10) != number {
		return "", false
	}
	return l(uint32(uid)), true
}
