package frontproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
)

// maxIdle is the highest number of connections to the API server that wait for requests.
const maxIdle = 256

// Options set up a [Proxy].
type Options struct {
	// Server is the address of the API server, https. Required.
	Server *url.URL
	// TLS has the certificate by which the API server knows the proxy, and the authority
	// of the API server. Required.
	TLS *tls.Config
	// Directory tells the groups of users. Required.
	Directory Directory
	// Log gets a line for each answer that breaks off. Default: none.
	Log *log.Logger
}

// Proxy is the [http.Handler]. Its requests have a peer ([peer.Context]).
type Proxy struct {
	directory Directory
	server    *url.URL
	transport *http.Transport
	reverse   *httputil.ReverseProxy
}

// New returns a proxy. The caller closes it.
func New(o Options) (*Proxy, error) {
	if o.Server == nil || o.Server.Scheme != "https" || o.Server.Host == "" {
		return nil, fmt.Errorf("the address of the API server is %v: a front proxy needs https://host:port", o.Server)
	}
	if o.TLS == nil || (len(o.TLS.Certificates) == 0 && o.TLS.GetClientCertificate == nil) {
		return nil, errors.New("a front proxy needs a client certificate")
	}
	if o.Log == nil {
		o.Log = log.New(io.Discard, "", 0)
	}
	p := &Proxy{directory: o.Directory, server: o.Server, transport: &http.Transport{
		TLSClientConfig: o.TLS.Clone(),
		// HTTP/1: exec and port-forward take over the connection, and the requests of one
		// user do not wait for those of another.
		Protocols:           new(http.Protocols),
		MaxIdleConns:        maxIdle,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		// The answer is the caller's, as it is.
		DisableCompression: true,
	}}
	p.transport.Protocols.SetHTTP1(true)
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.transport, FlushInterval: -1, ErrorLog: o.Log, ErrorHandler: unanswered,
	}
	return p, nil
}

// Close closes connections to the API server that wait for requests.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

type key struct{}

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := peer.FromContext(r.Context())
	if err != nil {
		peer.Refuse(w, http.StatusForbidden, err.Error())
		return
	}
	if err := check(r); err != nil {
		peer.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	who, err := Identify(r.Context(), p.directory, caller)
	if err != nil {
		peer.Refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, who)))
}

// rewrite makes the request to the API server. Headers of the connection are gone by
// now, so a caller cannot have those removed that are set here.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = p.server.Scheme, p.server.Host, p.server.Host
	clean(r.Out.Header)
	// The API server reads no trailers of requests.
	r.Out.Trailer = nil
	r.In.Context().Value(key{}).(Identity).set(r.Out.Header)
}

// unanswered answers where the API server does not.
func unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the caller is gone
	}
	peer.Refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("the API server of Muster does not answer: %v", err))
}
