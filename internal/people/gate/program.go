package gate

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// proxy returns the reverse proxy to a program. The program sees the site's host and the browser's
// origin as they are, so that its own checks of them hold.
func (g *Gate) proxy(s *site, p *Program) http.Handler {
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	return &httputil.ReverseProxy{
		Transport: p.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: p.Scheme, Host: p.Host})
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Proto", scheme)
		},
		// An answer that switches protocols does not pass through the gate's writer, so cookies are
		// filtered here as well.
		ModifyResponse: func(r *http.Response) error {
			filterSetCookie(r.Header)
			filterSetCookie(r.Trailer)
			return nil
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			g.log.Debug("a program did not answer", "site", s.Origin, "error", err)
			http.Error(w, "the program at "+s.Origin+" does not answer: see its log", http.StatusBadGateway)
		},
	}
}
