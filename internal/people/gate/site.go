package gate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/people/session"
)

const (
	defaultBody = 1 << 20
	programBody = 1 << 30
)

// Route is one path of a site, and all that it allows.
type Route struct {
	// Pattern is a path of [http.ServeMux], without a method or host.
	Pattern string
	// Methods are all methods that the route allows. HEAD is not part of GET.
	Methods []string
	// Public routes need no session. They allow GET and HEAD only, and show no data.
	Public bool
	// Asset marks a public route whose answers never change, so that browsers keep them.
	Asset bool
	// CookieOnly routes need a session, but not its key, to read: a page cannot send the key with a
	// download. Another server on the same machine can learn a cookie, so use it for little.
	CookieOnly bool
	// OwnCookies lets the handler of a public route see Muster's cookies, such as that of a sign-in which
	// has begun (see [Cookie]).
	OwnCookies bool
	// Scope lets tokens with this scope in. Without it, the route is for sessions only.
	Scope string
	// Upgrade is the only protocol to which a GET may switch, such as websocket.
	Upgrade string
	// Body is the largest body, in bytes; 0 means 1 MiB, and 1 GiB for a program.
	Body int64
	// Types are the content types of bodies; none means application/json. Programs take all types.
	Types []string
	// Handler answers, unless there is a Program.
	Handler http.Handler
	// Program is the server of a user to which requests go. Its pattern is "/".
	Program *Program
	// OwnToken marks a program that asks for a token of its own, on a port of its own. The gate asks
	// for no session there: it checks the form of a request, its host and its origin, removes Muster's
	// secrets and passes the rest on, the program's token too.
	OwnToken bool
}

// Program is a server of a user.
type Program struct {
	// Transport connects to the server, for example by a Unix socket.
	Transport http.RoundTripper
	// Scheme and Host are those of the requests to the transport. The program sees its site's host.
	Scheme, Host string
}

// Site is an origin and its routes. Sessions count at one origin only.
type Site struct {
	// Origin is what browsers send: "https://muster.example.org" or "http://localhost:8080".
	Origin string
	// Prefix is the path below which the site lies, such as "/muster", or empty.
	Prefix string
	Routes []Route
	// Admit refuses callers, such as those who are not the owner of a program, and exchanges of
	// links, such as those from a connection of another user. A program with a token of its own has an
	// empty caller. Nil admits all.
	Admit func(*http.Request, session.Caller) error
}

// Options are the parts of a gate.
type Options struct {
	Table *session.Table
	// Proxies are the addresses whose X-Forwarded-* headers count.
	Proxies []netip.Prefix
	// Log gets refusals, at the level debug; nil means none.
	Log *slog.Logger
	// Name returns the name of a user for people, such as the login; nil means the name of the user.
	Name func(ctx context.Context, user string) string
	// Advice says how one signs in, in answers to requests without a session; empty means by the command.
	Advice string
}

// Gate is an [http.Handler] with sites. Sites come and go while it serves.
type Gate struct {
	table   *session.Table
	proxies []netip.Prefix
	log     *slog.Logger
	cross   *http.CrossOriginProtection
	name    func(ctx context.Context, user string) string
	advice  string

	mu    sync.RWMutex
	sites map[string]*site // by host
}

// New returns a gate without sites, which refuses everything.
func New(o Options) *Gate {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == nil {
		o.Name = func(_ context.Context, user string) string { return user }
	}
	return &Gate{table: o.Table, proxies: slices.Clone(o.Proxies), log: o.Log, name: o.Name,
		advice: cmp.Or(o.Advice, "sign in with `muster console`"),
		cross:  http.NewCrossOriginProtection(), sites: map[string]*site{}}
}

// site is a checked Site.
type site struct {
	Site
	host    string
	secure  bool
	cookies cookieNames
	mux     *http.ServeMux
	routes  map[string]*Route // by pattern of mux
	program *Route
}

// Add starts to serve a site. Sessions that an earlier program had at the same origin end first: this
// may be another program, after a crash of Muster.
func (g *Gate) Add(ctx context.Context, s Site) error {
	made, err := g.build(s)
	if err != nil {
		return fmt.Errorf("site %q: %w", s.Origin, err)
	}
	if made.program != nil {
		if err := g.table.RevokeOrigin(ctx, s.Origin); err != nil {
			return fmt.Errorf("site %q: %w", s.Origin, err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sites[made.host] != nil {
		return fmt.Errorf("site %q: the gate serves this host already", s.Origin)
	}
	g.sites[made.host] = made
	return nil
}

// Remove stops serving a site and ends its sessions, with the requests that use them.
func (g *Gate) Remove(ctx context.Context, origin string) error {
	g.mu.Lock()
	for host, s := range g.sites {
		if s.Origin == origin {
			delete(g.sites, host)
		}
	}
	g.mu.Unlock()
	return g.table.RevokeOrigin(ctx, origin)
}

// Has reports whether the gate serves an origin.
func (g *Gate) Has(origin string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, s := range g.sites {
		if s.Origin == origin {
			return true
		}
	}
	return false
}

func (g *Gate) build(s Site) (*site, error) {
	u, err := checkOrigin(s.Origin)
	if err != nil {
		return nil, err
	}
	if s.Prefix != "" && (!clean(s.Prefix) || strings.HasSuffix(s.Prefix, "/") || strings.ContainsAny(s.Prefix, "{}%? ")) {
		return nil, fmt.Errorf("path prefix %q: give a path without an end slash, such as /muster", s.Prefix)
	}
	made := &site{Site: s, host: u.Host, secure: u.Scheme == "https", cookies: namesOf(u), mux: http.NewServeMux(), routes: map[string]*Route{}}
	routes := s.Routes
	if !slices.ContainsFunc(routes, func(r Route) bool { return r.OwnToken }) { // such a program has no sessions
		routes = append(g.entrance(made), routes...)
	}
	for _, r := range routes {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("route %q: %w", r.Pattern, err)
		}
		if r.Program != nil {
			if made.program != nil || s.Prefix != "" || r.Pattern != "/" {
				return nil, fmt.Errorf("route %q: a program has an origin of its own, without a path prefix, and the pattern /", r.Pattern)
			}
			r.Handler = g.proxy(made, r.Program)
			made.program = &r
			continue
		}
		if err := made.handle(&r); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// handle registers a route. ServeMux panics for a pattern that it cannot take.
func (s *site) handle(r *Route) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("route %q: %v", r.Pattern, p)
		}
	}()
	pattern := s.Prefix + r.Pattern
	s.mux.Handle(pattern, http.StripPrefix(s.Prefix, r.Handler))
	s.routes[pattern] = r
	return nil
}

// checkOrigin accepts origins to which browsers send Sec-Fetch-Site and secure cookies.
func checkOrigin(origin string) (*url.URL, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	if u.Scheme+"://"+u.Host != origin || u.Hostname() == "" || strings.ToLower(origin) != origin {
		return nil, fmt.Errorf("an origin has a scheme, a host and perhaps a port, in lower case, such as https://muster.example.org")
	}
	switch name := u.Hostname(); {
	case u.Scheme == "https" && u.Port() != "443":
	case u.Scheme == "http" && u.Port() != "80" && (name == "localhost" || strings.HasSuffix(name, ".localhost")):
	default:
		return nil, fmt.Errorf("an origin is https, or http with the host localhost or a name below it, and names no default port: browsers protect cookies there only")
	}
	return u, nil
}

var (
	reading   = []string{http.MethodGet, http.MethodHead}
	known     = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	protocols = regexp.MustCompile(`^[a-z0-9.-]*$`)
)

func (r *Route) check() error {
	if !strings.HasPrefix(r.Pattern, "/") {
		return fmt.Errorf("a pattern begins with /")
	}
	if (r.Handler == nil) == (r.Program == nil) {
		return fmt.Errorf("a route has a handler or a program")
	}
	if len(r.Methods) == 0 {
		return fmt.Errorf("a route names its methods")
	}
	for _, m := range r.Methods {
		switch {
		case r.Program != nil && m == http.MethodOptions:
		case !slices.Contains(known, m):
			return fmt.Errorf("method %q: a route allows some of %s", m, strings.Join(known, ", "))
		case r.Public && !slices.Contains(reading, m) && !r.entrance():
			return fmt.Errorf("method %q: a public route allows GET and HEAD only", m)
		}
	}
	if r.OwnToken && (r.Program == nil || r.Public || r.Scope != "") {
		return fmt.Errorf("a route with a token of its own has a program, and no scope")
	}
	if r.Public && (r.Program != nil || r.Upgrade != "" || r.Scope != "") || r.Asset && !r.Public {
		return fmt.Errorf("a public route has no program, upgrade or scope, and an asset is public")
	}
	if r.OwnCookies && !r.Public {
		return fmt.Errorf("only a public route has Muster's own cookies")
	}
	if !protocols.MatchString(r.Upgrade) || r.Upgrade != "" && !slices.Contains(r.Methods, http.MethodGet) {
		return fmt.Errorf("upgrade %q: give one protocol in lower case, and allow GET", r.Upgrade)
	}
	return nil
}

// entrance reports whether the route is the gate's own exchange of links.
func (r *Route) entrance() bool {
	_, ok := r.Handler.(*exchange)
	return ok
}

// open reports whether the gate asks for no session.
func (r *Route) open() bool { return r.Public || r.OwnToken }

func (r *Route) bodyBytes() int64 {
	switch {
	case r.Body > 0:
		return r.Body
	case r.Program != nil:
		return programBody
	}
	return defaultBody
}

// clean reports whether a decoded path has one reading: handlers and proxies agree about it.
func clean(p string) bool {
	tidy := path.Clean(p)
	if p != "/" && strings.HasSuffix(p, "/") {
		tidy += "/"
	}
	return p == tidy && strings.HasPrefix(p, "/") && !strings.ContainsFunc(p, func(c rune) bool {
		return c == '\\' || c < ' ' || c == 0x7f
	})
}

// ambiguous reports whether an encoded path hides a separator or a dot.
func ambiguous(encoded string) bool {
	lower := strings.ToLower(encoded)
	for _, hidden := range []string{"%2f", "%5c", "%2e"} {
		if strings.Contains(lower, hidden) {
			return true
		}
	}
	return false
}
