package gate

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/people/session"
)

const (
	keyHeader   = "X-Muster-Key"
	keyProtocol = "muster.key."
)

// Refusal is an answer of the gate to a request that does not pass.
type Refusal struct {
	Status int
	// Reason is a short name for logs and tests.
	Reason string
	// Message is one sentence for the caller.
	Message string
}

func refuse(status int, reason, message string, values ...any) *Refusal {
	return &Refusal{Status: status, Reason: reason, Message: fmt.Sprintf(message, values...)}
}

// passage is what the checks find out about a request.
type passage struct {
	gate  *Gate
	site  *site
	route *Route

	proxied bool
	host    string
	upgrade bool
	bearer  string // a token of Muster's
	grant   session.Grant
}

// check makes all checks, in order. Later checks rely on earlier ones.
func (g *Gate) check(r *http.Request) (*passage, *Refusal) {
	p := &passage{gate: g}
	for _, step := range []func(*passage, *http.Request) *Refusal{
		(*passage).wellFormed,
		(*passage).findSite,
		(*passage).findRoute,
		(*passage).checkMethod,
		(*passage).checkUpgrade,
		(*passage).checkOrigin,
		(*passage).authenticate,
		(*passage).checkKey,
		(*passage).checkRights,
		(*passage).checkBody,
	} {
		if no := step(p, r); no != nil {
			return p, no
		}
	}
	return p, nil
}

// single are headers of which a request has at most one: two could be read in two ways.
var single = []string{"Origin", "Sec-Fetch-Site", "Authorization", keyHeader, "Content-Type", "Upgrade",
	"X-Forwarded-Host", "X-Forwarded-Proto"}

func (p *passage) wellFormed(r *http.Request) *Refusal {
	for _, name := range single {
		if len(r.Header[name]) > 1 {
			return refuse(http.StatusBadRequest, "header", "the request has %d headers %s, and at most one is allowed", len(r.Header[name]), name)
		}
	}
	if r.URL.Host != "" || r.URL.User != nil || !strings.HasPrefix(r.URL.Path, "/") {
		return refuse(http.StatusBadRequest, "target", "the target of a request is a path that begins with /")
	}
	return nil
}

// findSite compares the host, letter by letter: a name that an attacker's DNS leads to this address is
// another host.
func (p *passage) findSite(r *http.Request) *Refusal {
	p.host = r.Host
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if p.proxied = p.gate.trusts(r.RemoteAddr); p.proxied {
		if forwarded := r.Header["X-Forwarded-Host"]; len(forwarded) == 1 {
			p.host = forwarded[0]
		}
		if forwarded := r.Header["X-Forwarded-Proto"]; len(forwarded) == 1 {
			scheme = forwarded[0]
		}
	}
	p.gate.mu.RLock()
	p.site = p.gate.sites[p.host]
	p.gate.mu.RUnlock()
	if p.site == nil {
		return refuse(http.StatusMisdirectedRequest, "host", "host %.100q: this server does not serve that host", p.host)
	}
	if p.site.secure != (scheme == "https") || scheme != "http" && scheme != "https" {
		return refuse(http.StatusMisdirectedRequest, "scheme", "the request came by %.10q: use %s; a reverse proxy sends X-Forwarded-Proto", scheme, p.site.Origin)
	}
	return nil
}

func (g *Gate) trusts(remote string) bool {
	if len(g.proxies) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(g.proxies, func(n netip.Prefix) bool { return n.Contains(peer.Addr().Unmap()) })
}

func (p *passage) findRoute(r *http.Request) *Refusal {
	encoded := r.URL.EscapedPath()
	if clean(r.URL.Path) && !ambiguous(encoded) {
		_, pattern := p.site.mux.Handler(r)
		p.route = p.site.routes[pattern]
	} else if p.site.program == nil {
		return refuse(http.StatusBadRequest, "path", "path %.100q: a path has no empty, dotted or hidden segments", encoded)
	}
	if p.route == nil {
		p.route = p.site.program
	}
	if p.route == nil {
		return refuse(http.StatusNotFound, "route", "path %.100q: there is nothing here", encoded)
	}
	return nil
}

func (p *passage) checkMethod(r *http.Request) *Refusal {
	if !slices.Contains(p.route.Methods, r.Method) {
		return refuse(http.StatusMethodNotAllowed, "method", "method %.20q: allowed are %s", r.Method, strings.Join(p.route.Methods, ", "))
	}
	return nil
}

// checkUpgrade finds requests to switch the protocol. A websocket is a GET, but changes state.
func (p *passage) checkUpgrade(r *http.Request) *Refusal {
	protocol, asks := header(r, "Upgrade")
	connection := slices.ContainsFunc(tokens(r.Header["Connection"]), func(t string) bool { return strings.EqualFold(t, "upgrade") })
	if !asks && !connection {
		return nil
	}
	p.upgrade = true
	switch {
	case p.route.Upgrade == "", !strings.EqualFold(protocol, p.route.Upgrade):
		return refuse(http.StatusBadRequest, "upgrade", "upgrade to %.20q: this path does not switch to that protocol", protocol)
	case !connection, r.Method != http.MethodGet, r.ProtoMajor != 1, r.ContentLength != 0:
		return refuse(http.StatusBadRequest, "upgrade", "an upgrade is a GET of HTTP/1.1 with the header Connection: Upgrade and no body")
	}
	return nil
}

// checkOrigin refuses what other origins have a browser send. It never reads Sec-Fetch-Mode.
func (p *passage) checkOrigin(r *http.Request) *Refusal {
	if !p.route.Public && !p.route.OwnToken {
		p.bearer = bearer(r)
	}
	changes := p.upgrade || !slices.Contains(reading, r.Method)
	origin, has := header(r, "Origin")
	if has && origin != p.site.Origin {
		return refuse(http.StatusForbidden, "origin", "origin %.100q: only pages of %s may send this", origin, p.site.Origin)
	}
	// A program other than a browser sends no Origin. Its token is the proof; a page cannot hide its Origin.
	if changes && !has && p.bearer == "" && !p.route.OwnToken {
		return refuse(http.StatusForbidden, "origin", "a request that changes something needs the header Origin: %s, or a token", p.site.Origin)
	}
	if from, has := header(r, "Sec-Fetch-Site"); has {
		switch {
		case from == "same-origin":
		case from == "none" && !changes:
		case (from == "same-site" || from == "cross-site") && !changes && p.route.Public:
		default:
			return refuse(http.StatusForbidden, "fetch", "Sec-Fetch-Site %.20q: only pages of %s may send this", from, p.site.Origin)
		}
	}
	seen := *r
	seen.Host = p.host
	if err := p.gate.cross.Check(&seen); err != nil {
		return refuse(http.StatusForbidden, "origin", "only pages of %s may send this", p.site.Origin)
	}
	return nil
}

// bearer returns the token of Muster's in a request. Another Authorization header is a program's.
func bearer(r *http.Request) string {
	value, _ := header(r, "Authorization")
	scheme, token, _ := strings.Cut(value, " ")
	if strings.EqualFold(scheme, "Bearer") && session.Reveals(token) {
		return strings.TrimSpace(token)
	}
	return ""
}

func (p *passage) authenticate(r *http.Request) *Refusal {
	if p.route.open() {
		return nil
	}
	var err error
	if _, has := header(r, "Authorization"); p.bearer != "" || has && p.route.Program == nil {
		p.grant, err = p.gate.table.Token(p.bearer)
	} else {
		cookie, one := p.site.cookies.find(r)
		if !one {
			return refuse(http.StatusBadRequest, "cookies", "the browser has two cookies of this name: remove the cookies of this site, and %s", p.gate.advice)
		}
		p.grant, err = p.gate.table.Session(cookie, p.site.Origin)
	}
	switch {
	case errors.Is(err, session.ErrClock):
		return refuse(http.StatusUnauthorized, "clock", "the clock of the server was set back: correct it, or %s", p.gate.advice)
	case err != nil:
		return refuse(http.StatusUnauthorized, "session", "no session: %s", p.gate.advice)
	}
	return nil
}

// checkKey asks for the key of a session, which pages of its origin alone know. A cookie is not enough:
// a browser sends it to every port of this host, so servers of others may learn it. Programs do not
// know the key. There Sec-Fetch-Site protects. Where a browser does not send it, the Origin protects
// an upgrade, and other changes need the key.
func (p *passage) checkKey(r *http.Request) *Refusal {
	if p.route.open() || p.bearer != "" {
		return nil
	}
	changes := p.upgrade || !slices.Contains(reading, r.Method)
	_, fetch := header(r, "Sec-Fetch-Site")
	if p.route.Program != nil && (fetch || !changes || p.upgrade) || p.route.CookieOnly && !changes {
		return nil
	}
	if !p.grant.HasKey(keyOf(r)) {
		return refuse(http.StatusForbidden, "key", "the request lacks the key of its session: reload the page, or %s", p.gate.advice)
	}
	return nil
}

// keyOf returns the key in a header, or in a subprotocol: a page can set no headers of a websocket. The
// page offers a second subprotocol, which the handler chooses: browsers want one of the offered.
func keyOf(r *http.Request) string {
	if key, has := header(r, keyHeader); has {
		return key
	}
	for _, t := range tokens(r.Header["Sec-Websocket-Protocol"]) {
		if key, ok := strings.CutPrefix(t, keyProtocol); ok {
			return key
		}
	}
	return ""
}

func (p *passage) checkRights(r *http.Request) *Refusal {
	if p.route.Public {
		return nil
	}
	if p.route.OwnToken {
		return p.site.admit(r, session.Caller{})
	}
	if p.grant.Kind == session.KindToken && (p.route.Scope == "" || !slices.Contains(p.grant.Scopes, p.route.Scope)) {
		return refuse(http.StatusForbidden, "scope", "token %s: this path needs the scope %q", p.grant.ID, p.route.Scope)
	}
	return p.site.admit(r, p.grant.Caller)
}

func (s *site) admit(r *http.Request, c session.Caller) *Refusal {
	if s.Admit == nil {
		return nil
	}
	if err := s.Admit(r, c); err != nil {
		return refuse(http.StatusForbidden, "caller", "%.60s may not use %s: %v", cmp.Or(c.User, "this connection"), s.Origin, err)
	}
	return nil
}

// checkBody refuses types that a page of another origin can send without asking, and sizes.
func (p *passage) checkBody(r *http.Request) *Refusal {
	if most := p.route.bodyBytes(); r.ContentLength > most {
		return refuse(http.StatusRequestEntityTooLarge, "size", "the body has %d bytes, and at most %d are allowed", r.ContentLength, most)
	}
	if p.route.Program != nil || r.ContentLength == 0 {
		return nil
	}
	if slices.Contains(reading, r.Method) {
		return refuse(http.StatusBadRequest, "body", "a request of the method %s has no body", r.Method)
	}
	allowed := p.route.Types
	if len(allowed) == 0 {
		allowed = []string{"application/json"}
	}
	given, _ := header(r, "Content-Type")
	if kind, _, err := mime.ParseMediaType(given); err != nil || !slices.Contains(allowed, kind) {
		return refuse(http.StatusUnsupportedMediaType, "type", "content type %.100q: allowed are %s", given, strings.Join(allowed, ", "))
	}
	return nil
}

// header returns a header and whether the request has it. An empty one counts as there.
func header(r *http.Request, name string) (string, bool) {
	if list := r.Header[name]; len(list) > 0 {
		return list[0], true
	}
	return "", false
}

// tokens splits headers that are lists.
func tokens(lines []string) []string {
	var all []string
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(t))
		}
	}
	return all
}
