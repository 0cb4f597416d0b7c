package gate

import (
	"cmp"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/people/session"
)

const (
	hostPrefix = "__Host-"
	ownCookies = "muster-"
	probe      = "-probe"
)

// cookieNames are the names of a site's cookie. Cookies ignore ports, so the port is part of the name.
type cookieNames struct {
	// prefixed begins with __Host-. Browsers take it only if it is secure, for the whole host, and for
	// no other host.
	prefixed string
	// plain is for browsers that keep no __Host- cookie over http; empty for https.
	plain string
}

func namesOf(origin *url.URL) cookieNames {
	name := ownCookies + cmp.Or(origin.Port(), origin.Scheme)
	if origin.Scheme == "https" {
		return cookieNames{prefixed: hostPrefix + name}
	}
	return cookieNames{prefixed: hostPrefix + name, plain: name}
}

// find returns the value of the session's cookie. Two of one name are an error: another server on this
// host or a parent of it has set one of them.
func (n cookieNames) find(r *http.Request) (value string, ok bool) {
	for _, name := range []string{n.prefixed, n.plain} {
		if name == "" {
			continue
		}
		switch found := r.CookiesNamed(name); len(found) {
		case 0:
		case 1:
			return found[0].Value, true
		default:
			return "", false
		}
	}
	return "", true
}

// keeps reports whether the browser keeps __Host- cookies here: it has sent back the probe.
func (n cookieNames) keeps(r *http.Request) bool {
	return n.plain == "" || len(r.CookiesNamed(n.prefixed+probe)) > 0
}

func makeCookie(name, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if c.MaxAge = int(life / time.Second); life <= 0 {
		c.MaxAge = -1
	}
	return c
}

// Cookie returns a cookie of an origin for another purpose than its session. A browser sends it along
// when a page of another site leads here. A life of 0 removes it.
func Cookie(origin *url.URL, purpose, value string, life time.Duration) *http.Cookie {
	names := namesOf(origin)
	c := makeCookie(cmp.Or(names.plain, names.prefixed)+"-"+purpose, value, life)
	c.SameSite = http.SameSiteLaxMode
	return c
}

// ours reports whether a cookie's name is one of Muster's, in any spelling.
func ours(name string) bool {
	name = strings.ToLower(textproto.TrimString(name))
	return strings.HasPrefix(strings.TrimPrefix(name, strings.ToLower(hostPrefix)), ownCookies)
}

// stripCookies removes Muster's cookies from a request to a program: by name, and by value, whatever
// the name. It reads the header by itself, so that a cookie that Go does not parse cannot slip through.
func stripCookies(h http.Header) {
	var kept []string
	for _, line := range h["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			pair = textproto.TrimString(pair)
			name, _, _ := strings.Cut(pair, "=")
			if pair != "" && !ours(name) && !session.Reveals(pair) {
				kept = append(kept, pair)
			}
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// filterSetCookie removes cookies that a program may not set: those with a name of Muster's, and those
// that would go to other hosts.
func filterSetCookie(h http.Header) {
	list := h["Set-Cookie"]
	if len(list) == 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(line string) bool {
		parts := strings.Split(line, ";")
		name, _, _ := strings.Cut(parts[0], "=")
		return ours(name) || nameless(parts[0]) || slices.ContainsFunc(parts[1:], func(attribute string) bool {
			key, _, _ := strings.Cut(attribute, "=")
			return strings.EqualFold(textproto.TrimString(key), "domain")
		})
	})
	delete(h, "Set-Cookie")
	if len(kept) > 0 {
		h["Set-Cookie"] = kept
	}
}

// nameless reports whether a cookie has no name. A browser sends such a cookie as its value alone, which
// can read as another cookie's name and value.
func nameless(pair string) bool {
	name, _, ok := strings.Cut(pair, "=")
	return !ok || textproto.TrimString(name) == ""
}
