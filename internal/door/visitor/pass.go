package visitor

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Bare is a request to read the same path, with nothing else of the original but its range: it
// is for [Visitor.Pass], where the caller is not trusted.
func Bare(r *http.Request) *http.Request {
	bare := r.Clone(r.Context())
	bare.URL.RawQuery, bare.Header = "", http.Header{}
	bare.Body, bare.ContentLength, bare.TransferEncoding = http.NoBody, 0, nil
	if part := r.Header.Get("Range"); part != "" {
		bare.Header.Set("Range", part)
	}
	return bare
}

// Pass hands a request on to the door, at a path of a namespace, and hands the
// answer back, both as they come. What is not an answer with the header mark is
// told as 503: it says nothing of what was asked.
func (v *Visitor) Pass(w http.ResponseWriter, r *http.Request, namespace, path, mark string) {
	token, err := v.token(r.Context(), namespace, false)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	to, err := url.Parse(v.base)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport:     v.http.Transport,
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.URL.Path, p.Out.URL.RawPath = "/v1/namespaces/"+namespace+path, ""
			p.Out.Header.Del("Authorization")
			p.Out.Header.Set(v1alpha1.DoorHeader, token)
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.Header.Get(mark) != "" {
				return nil
			}
			text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // what came will do
			return fmt.Errorf("asking Muster's manager: it answers %s: %s", answer.Status, strings.TrimSpace(string(text)))
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		},
	}
	proxy.ServeHTTP(w, r)
}
