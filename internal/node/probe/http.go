package probe

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// client asks without following redirects, without proxies and without keeping
// connections: each question stands for itself. Certificates are not verified,
// since a container's address is in none.
var client = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func newRequest(ctx context.Context, action *corev1.HTTPGetAction, address string) (*http.Request, error) {
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	target, err := url.Parse(action.Path)
	if err != nil {
		return nil, err
	}
	target.Scheme, target.Host = scheme, address
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "muster-probe")
	for _, h := range action.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
			continue
		}
		request.Header.Add(h.Name, h.Value)
	}
	return request, nil
}
