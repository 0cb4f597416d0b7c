package gate

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/session"
)

// sent is a request of a walk.
type sent struct {
	origin, method string
	route          *Route
	r              *http.Request
}

func (s sent) reads() bool  { return slices.Contains(reading, s.method) }
func (s sent) public() bool { return s.route.Public && s.reads() }

func nothing(sent) bool    { return false }
func public(s sent) bool   { return s.public() }
func reads(s sent) bool    { return s.reads() }
func programs(s sent) bool { return s.route.Program != nil }

// attack changes a good request. Only requests that may pass are allowed to reach a handler.
type attack struct {
	change func(sent)
	passes func(sent) bool
}

func set(name string, values ...string) func(sent) {
	return func(s sent) {
		s.r.Header.Del(name)
		for _, v := range values {
			s.r.Header[http.CanonicalHeaderKey(name)] = append(s.r.Header[http.CanonicalHeaderKey(name)], v)
		}
	}
}

func host(change func(string) string) func(sent) {
	return func(s sent) {
		s.r.Host = change(s.r.Host)
		if forwarded := s.r.Header.Get("X-Forwarded-Host"); forwarded != "" {
			s.r.Header.Set("X-Forwarded-Host", change(forwarded))
		}
	}
}

func upgrade(protocol string, origin bool) func(sent) {
	return func(s sent) {
		s.r.Header.Set("Connection", "keep-alive, Upgrade")
		s.r.Header.Set("Upgrade", protocol)
		if !origin {
			s.r.Header.Del("Origin")
		}
	}
}

func body(kind string) func(sent) {
	return func(s sent) {
		s.r.ContentLength = 8
		s.r.Header.Set("Content-Type", kind)
	}
}

func anonymous(s sent) {
	for _, name := range []string{"Cookie", "Authorization", keyHeader} {
		s.r.Header.Del(name)
	}
}

// attacks returns changes of good requests, with the requests that still pass.
func attacks(b *bench, other, expired, revoked map[string]session.Opened) map[string]attack {
	cookie := func(value func(origin string) string) func(sent) {
		return func(s sent) { s.r.Header.Set("Cookie", cookieOf[s.origin]+"="+value(s.origin)) }
	}
	token := b.token("jobs", "programs")
	return map[string]attack{
		"no host":           {host(func(string) string { return "" }), nothing},
		"foreign host":      {host(func(string) string { return "evil.example" }), nothing},
		"address":           {host(func(string) string { return "127.0.0.1:8080" }), nothing},
		"host without port": {host(func(h string) string { name, _, _ := strings.Cut(h, ":"); return name + ":1" }), nothing},
		"host in capitals":  {host(strings.ToUpper), nothing},
		"host with a dot":   {host(func(h string) string { return strings.Replace(h, ":", ".:", 1) + "." }), nothing},
		"host and more":     {host(func(h string) string { return h + ", evil.example" }), nothing},
		"forwarded host": {func(s sent) {
			s.r.RemoteAddr = "192.0.2.1:1"
			s.r.Header.Set("X-Forwarded-Host", s.r.Host)
			s.r.Host = "evil.example"
		}, nothing},
		"foreign origin":       {set("Origin", "https://evil.example"), nothing},
		"null origin":          {set("Origin", "null"), nothing},
		"empty origin":         {set("Origin", ""), nothing},
		"origin of a port":     {set("Origin", "http://localhost:9999"), nothing},
		"origin of a sibling":  {set("Origin", "http://evil.localhost:8080"), nothing},
		"origin and a slash":   {func(s sent) { s.r.Header.Set("Origin", s.origin+"/") }, nothing},
		"two origins":          {func(s sent) { set("Origin", s.origin, s.origin)(s) }, nothing},
		"no origin":            {set("Origin"), reads},
		"fetch: cross-site":    {set("Sec-Fetch-Site", "cross-site"), public},
		"fetch: same-site":     {set("Sec-Fetch-Site", "same-site"), public},
		"fetch: none":          {set("Sec-Fetch-Site", "none"), reads},
		"fetch: empty":         {set("Sec-Fetch-Site", ""), nothing},
		"fetch: capitals":      {set("Sec-Fetch-Site", "Same-Origin"), nothing},
		"fetch: twice":         {set("Sec-Fetch-Site", "same-origin", "cross-site"), nothing},
		"no session":           {anonymous, public},
		"cookie of another":    {cookie(func(origin string) string { return other[elsewhere(origin)].Cookie.Reveal() }), public},
		"expired session":      {func(s sent) { signed(s, expired[s.origin]) }, public},
		"revoked session":      {func(s sent) { signed(s, revoked[s.origin]) }, public},
		"session of an origin": {func(s sent) { signed(s, other[elsewhere(s.origin)]) }, public},
		"two cookies":          {func(s sent) { s.r.Header.Add("Cookie", s.r.Header.Get("Cookie")) }, public},
		"token as a cookie":    {cookie(func(string) string { return token }), public},
		"no key":               {set(keyHeader), func(s sent) bool { return s.public() || programs(s) || s.route.CookieOnly && s.reads() }},
		"key of another":       {func(s sent) { s.r.Header.Set(keyHeader, other[s.origin].Key.Reveal()) }, func(s sent) bool { return s.public() || programs(s) || s.route.CookieOnly && s.reads() }},
		"no key, no fetch":     {func(s sent) { set(keyHeader)(s); set("Sec-Fetch-Site")(s) }, func(s sent) bool { return s.public() || s.reads() && (programs(s) || s.route.CookieOnly) }},
		"unknown bearer":       {func(s sent) { anonymous(s); s.r.Header.Set("Authorization", "Bearer muster-token.0.x") }, public},
		"basic password":       {func(s sent) { s.r.Header.Set("Authorization", "Basic YTpi") }, func(s sent) bool { return s.public() || programs(s) }},
		"upgrade, no origin":   {upgrade("websocket", false), nothing},
		"upgrade":              {upgrade("websocket", true), func(s sent) bool { return s.method == "GET" && s.route.Upgrade != "" }},
		"upgrade to h2c":       {upgrade("h2c", true), nothing},
		"upgrade from abroad":  {func(s sent) { upgrade("websocket", true)(s); s.r.Header.Set("Sec-Fetch-Site", "same-site") }, nothing},
		"upgrade, typed":       {func(s sent) { upgrade("websocket", true)(s); s.r.Header.Set("Sec-Fetch-Site", "none") }, nothing},
		"upgrade, no session":  {func(s sent) { upgrade("websocket", true)(s); anonymous(s) }, nothing},
		"text/plain":           {body("text/plain"), programs},
		"form":                 {body("application/x-www-form-urlencoded"), programs},
		"no type":              {body(""), programs},
		"two types":            {func(s sent) { body("application/json")(s); s.r.Header.Add("Content-Type", "text/plain") }, nothing},
		"absolute target":      {func(s sent) { s.r.URL.Host = s.r.Host }, nothing},
		"large":                {func(s sent) { body("application/json")(s); s.r.ContentLength = 2 << 30 }, nothing},
	}
}

func elsewhere(origin string) string {
	if origin == console {
		return program
	}
	return console
}

func signed(s sent, as session.Opened) {
	s.r.Header.Set("Cookie", cookieOf[s.origin]+"="+as.Cookie.Reveal())
	s.r.Header.Set(keyHeader, as.Key.Reveal())
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"}

// pathOf returns a path that a pattern matches.
func pathOf(s *site, r *Route) string {
	return s.Prefix + strings.NewReplacer("{$}", "", "{name}", "a").Replace(r.Pattern)
}

// countAll puts the bench's counter in front of the gate's own routes, too.
func (b *bench) countAll() {
	for _, s := range b.sites {
		s.mux = http.NewServeMux()
		for pattern := range s.routes {
			s.mux.HandleFunc(pattern, b.handle)
		}
	}
}

// TestWalk sends every method to every route of every site, as it should be and changed by every
// attack. A request that should not pass reaches no handler and no program.
func TestWalk(t *testing.T) {
	b := newBench(t)
	good, other := map[string]session.Opened{}, map[string]session.Opened{}
	expired, revoked := map[string]session.Opened{}, map[string]session.Opened{}
	for origin := range cookieOf {
		b.shift.Store(0)
		expired[origin] = b.signIn(ada, origin)
	}
	b.shift.Store(int64(9 * time.Hour)) // idle for longer than allowed
	for origin := range cookieOf {
		good[origin], other[origin], revoked[origin] = b.signIn(ada, origin), b.signIn(ada, origin), b.signIn(ada, origin)
		must(t, b.table.Revoke(t.Context(), "", revoked[origin].ID))
	}
	b.countAll()
	list := attacks(b, other, expired, revoked)
	list["as it should be"] = attack{func(sent) {}, func(sent) bool { return true }}
	passed, refused := 0, 0
	for _, s := range b.sites {
		routes := []*Route{}
		for _, r := range s.routes {
			routes = append(routes, r)
		}
		if s.program != nil {
			routes = append(routes, s.program)
		}
		for _, route := range routes {
			for _, method := range methods {
				for name, a := range list {
					x := sent{origin: s.Origin, method: method, route: route, r: request(method, s.Origin, pathOf(s, route), "", good[s.Origin])}
					a.change(x)
					want := slices.Contains(route.Methods, method) && (a.passes(x) || exchanges(x, name))
					answer, got := b.send(x.r)
					if got != want {
						t.Errorf("%s: %s %s of %s: reached a handler: %t, want %t (status %d)", name, method, route.Pattern, s.Origin, got, want, answer.StatusCode)
					}
					if got {
						passed++
					} else {
						refused++
					}
				}
			}
		}
	}
	t.Logf("%d requests passed, %d were refused", passed, refused)
}

// exchanges reports whether the exchange of links, which needs no session, takes the request.
func exchanges(s sent, name string) bool {
	return s.route.entrance() && slices.Contains([]string{"no session", "cookie of another", "expired session", "revoked session",
		"session of an origin", "two cookies", "token as a cookie", "no key", "key of another", "no key, no fetch", "unknown bearer", "basic password"}, name)
}
