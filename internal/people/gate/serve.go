package gate

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/people/session"
)

type grantKey struct{}

// Of returns the session or token of a request that passed a gate. A public route has none.
func Of(ctx context.Context) (session.Grant, bool) {
	grant, ok := ctx.Value(grantKey{}).(session.Grant)
	return grant, ok
}

// Server returns a server whose every request goes through the gate: net/http answers "OPTIONS *" by
// itself otherwise. The caller closes it.
func (g *Gate) Server() *http.Server {
	return &http.Server{Handler: g, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug)}
}

// ServeHTTP implements [http.Handler].
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, no := g.check(r)
	if no != nil {
		g.answer(w, r, p, no)
		return
	}
	ctx, cancel := p.context(r)
	defer cancel()
	out := p.request(ctx, r)
	out.Body = http.MaxBytesReader(w, out.Body, p.route.bodyBytes())
	a := &answer{inner: w, passage: p}
	a.before()
	if p.route.Program != nil {
		p.route.Handler.ServeHTTP(a, out)
	} else {
		p.site.mux.ServeHTTP(a, out)
	}
	a.settle()
}

// context ends with the session: an open stream does not outlive a revoked or expired one.
func (p *passage) context(r *http.Request) (context.Context, context.CancelFunc) {
	if p.route.open() {
		return r.Context(), func() {}
	}
	ctx := context.WithValue(r.Context(), grantKey{}, p.grant)
	ctx, cancel := context.WithTimeout(ctx, p.grant.Left)
	stop := p.grant.AfterEnd(cancel)
	return ctx, func() { stop(); cancel() }
}

// claims are the beginnings of the names of headers in which proxies identify a caller. Only the gate
// identifies callers.
var claims = []string{"x-forwarded", "forwarded", "x-real-ip", "x-remote-", "x-muster-", "x-original-", "x-rewrite-url"}

// request returns the request as handlers see it: without Muster's secrets, and without headers that
// name another caller, host or path.
func (p *passage) request(ctx context.Context, r *http.Request) *http.Request {
	out := r.Clone(ctx)
	out.Host = p.host
	if !p.route.entrance() && !p.route.OwnCookies {
		stripCookies(out.Header)
	}
	for name, lines := range out.Header {
		spelled := strings.ReplaceAll(strings.ToLower(name), "_", "-") // as CGI and WSGI read it
		claim := slices.ContainsFunc(claims, func(c string) bool { return strings.HasPrefix(spelled, c) })
		leaks := name != "Cookie" && slices.ContainsFunc(lines, session.Reveals) // Authorization, or another by mistake
		if claim || leaks {
			delete(out.Header, name)
		}
	}
	if offered := tokens(out.Header["Sec-Websocket-Protocol"]); len(offered) > 0 {
		offered = slices.DeleteFunc(offered, func(t string) bool { return strings.HasPrefix(t, keyProtocol) })
		out.Header.Del("Sec-Websocket-Protocol")
		if len(offered) > 0 {
			out.Header.Set("Sec-Websocket-Protocol", strings.Join(offered, ", "))
		}
	}
	return out
}

// answer answers a request that does not pass. It logs no header of the request but the host.
func (g *Gate) answer(w http.ResponseWriter, r *http.Request, p *passage, no *Refusal) {
	g.log.DebugContext(r.Context(), "the gate refused a request", "reason", no.Reason, "status", no.Status,
		"method", short(r.Method), "host", short(p.host), "remote", r.RemoteAddr)
	h := w.Header()
	protect(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if no.Status == http.StatusMethodNotAllowed {
		h.Set("Allow", strings.Join(p.route.Methods, ", "))
	}
	if r.ContentLength != 0 {
		h.Set("Connection", "close") // the body was not read
	}
	w.WriteHeader(no.Status)
	_, _ = io.WriteString(w, no.Message+"\n")
}

func short(text string) string { return text[:min(len(text), 100)] }
