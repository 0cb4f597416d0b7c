package gate

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// policy allows scripts and styles of the own origin only, and none inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// protect sets the headers of an answer of Muster's own.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// answer is the writer of a request that passed. It sets the headers again when they are sent, so no
// handler or program loosens them.
type answer struct {
	inner   http.ResponseWriter
	passage *passage
	settled bool
}

// before sets headers that handlers see.
func (a *answer) before() {
	if a.passage.route.Program == nil {
		protect(a.inner.Header())
	}
}

// settle makes the headers final.
func (a *answer) settle() {
	if !a.settled {
		a.settled = true
		a.filter()
	}
}

func (a *answer) filter() {
	h := a.inner.Header()
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "access-control-") { // no other origin reads answers
			delete(h, name)
		}
	}
	switch route := a.passage.route; {
	case route.Program != nil:
		protectProgram(h)
	case route.Asset:
		protect(h)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	default:
		protect(h)
	}
}

// protectProgram filters the headers of an answer of a program. A second policy of a page counts in
// addition to the first.
func protectProgram(h http.Header) {
	filterSetCookie(h)
	h.Add("Content-Security-Policy", "frame-ancestors 'self'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if h.Get("Referrer-Policy") == "" {
		h.Set("Referrer-Policy", "same-origin")
	}
	private(h)
}

// private keeps answers of a program out of shared caches.
func private(h http.Header) {
	rules := []string{"private"}
	for _, rule := range tokens(h["Cache-Control"]) {
		name, _, _ := strings.Cut(strings.ToLower(rule), "=")
		switch name {
		case "", "public", "private", "s-maxage":
		default:
			rules = append(rules, rule)
		}
	}
	if len(rules) == 1 {
		rules = append(rules, "no-cache")
	}
	h.Set("Cache-Control", strings.Join(rules, ", "))
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.inner.Header() }

// WriteHeader implements [http.ResponseWriter]. An interim answer has headers too.
func (a *answer) WriteHeader(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		a.filter()
	} else {
		a.settle()
	}
	a.inner.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(text []byte) (int, error) {
	a.settle()
	return a.inner.Write(text)
}

// Flush implements [http.Flusher].
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError sends what was written, as [http.ResponseController] does.
func (a *answer) FlushError() error {
	a.settle()
	return http.NewResponseController(a.inner).Flush()
}

var errNoUpgrade = errors.New("this request did not ask to switch protocols, so its connection stays with the gate")

// Hijack implements [http.Hijacker] for upgrades that passed.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !a.passage.upgrade {
		return nil, nil, errNoUpgrade
	}
	a.settle()
	return http.NewResponseController(a.inner).Hijack()
}

// SetReadDeadline is for [http.ResponseController].
func (a *answer) SetReadDeadline(at time.Time) error {
	return http.NewResponseController(a.inner).SetReadDeadline(at)
}

// SetWriteDeadline is for [http.ResponseController].
func (a *answer) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(a.inner).SetWriteDeadline(at)
}
