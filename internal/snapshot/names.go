package snapshot

import (
	"strings"
	"unicode"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/visibility"
)

// Names returns the mask for what is written into the status of a namespace's objects,
// which the owner of the namespace reads.
type Names func(namespace string) scheduling.Mask

// NamesForOwners shows every owner of a namespace the names of others that a rule shows.
// Own and Login of the rule are set for each.
func NamesForOwners(rule visibility.Rule, logins visibility.Logins) Names {
	return func(namespace string) scheduling.Mask {
		own := rule
		own.Own = namespace
		own.Login, _ = logins.OfNamespace(namespace)
		return MaskOf(own, logins)
	}
}

// seenIn returns a reason with the names that the owner of a namespace sees.
func (l *Loop) seenIn(namespace string, r scheduling.Reason) scheduling.Reason {
	if l.options.Names == nil {
		return r
	}
	return l.options.Names(namespace).Reason(r)
}

// forWhom is the name of a request in an order to make room for it, for the owner of a
// namespace: namespace/name, or LOGIN/job where the name is not shown.
func (l *Loop) forWhom(namespace string, k scheduling.Key) string {
	if l.options.Names == nil {
		return k.String()
	}
	mask := l.options.Names(namespace)
	if mask.Key != nil {
		k = mask.Key(k)
	}
	if k.Name != "" {
		return k.String()
	}
	// Controllers read the order as words.
	return strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsSpace(r) {
			return '-'
		}
		return r
	}, k.Namespace) + "/job"
}
