package frontproxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

var (
	// upgrades are the protocols of exec, attach and port-forward. Others, such as h2c,
	// would carry requests past this proxy.
	upgrades = []string{"spdy/3.1", "websocket"}
	// hops are what a caller may say about its connection. Any other header that is named
	// there would be removed on the way, such as Impersonate-User.
	hops = []string{"close", "keep-alive", "upgrade", "te"}
)

// check returns an error for a request that is not passed on.
func check(r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect:
		return errors.New("the method CONNECT is not allowed here: ask for a path")
	case r.URL.IsAbs() || r.URL.Host != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return errors.New("the request names a server: ask for a path that begins with /")
	}
	if err := checkPath(r.URL.Path); err != nil {
		return err
	}
	for _, token := range tokens(r.Header, "Connection") {
		if token != "" && !slices.Contains(hops, token) {
			return fmt.Errorf("the header Connection names %q: allowed are %s", token, strings.Join(hops, ", "))
		}
	}
	for _, token := range tokens(r.Header, "Upgrade") {
		if !slices.Contains(upgrades, token) {
			return fmt.Errorf("the header Upgrade names %q: allowed are %s", token, strings.Join(upgrades, ", "))
		}
	}
	return nil
}

// checkPath refuses paths that two readers may understand differently.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return fmt.Errorf("the path is %q: it has to begin with one /", path)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("the path %q has a segment %q: give the path without it", path, segment)
		}
	}
	if strings.ContainsFunc(path, unicode.IsControl) {
		return fmt.Errorf("the path %q has a control character: give a path without it", path)
	}
	return nil
}

// tokens returns the elements of a header that is a list, in lower case.
func tokens(header http.Header, name string) []string {
	var all []string
	for _, value := range header.Values(name) {
		for token := range strings.SplitSeq(value, ",") {
			all = append(all, strings.ToLower(strings.TrimSpace(token)))
		}
	}
	return all
}

// clean removes what a caller may not tell the API server.
func clean(header http.Header) {
	for name := range header {
		if forbidden(name) {
			delete(header, name)
		}
	}
	const protocols = "Sec-Websocket-Protocol"
	if _, there := header[protocols]; there {
		cleanProtocols(header, protocols)
	}
}

// forbidden reports whether a header names an identity, or the way of a request.
func forbidden(name string) bool {
	// Some servers read _ as -.
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	switch name {
	case "authorization", "proxy-authorization", "forwarded", "x-real-ip", "via":
		return true
	}
	return strings.HasPrefix(name, "x-remote-") || strings.HasPrefix(name, "x-forwarded-")
}

// tokenProtocol begins the WebSocket protocol that carries a token in place of the
// header Authorization.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// cleanProtocols removes tokens from the protocols that a WebSocket client offers.
func cleanProtocols(header http.Header, name string) {
	var offered []string
	for _, value := range header[name] {
		for protocol := range strings.SplitSeq(value, ",") {
			protocol = strings.TrimSpace(protocol)
			if protocol != "" && !strings.HasPrefix(strings.ToLower(protocol), tokenProtocol) {
				offered = append(offered, protocol)
			}
		}
	}
	if delete(header, name); len(offered) > 0 {
		header.Set(name, strings.Join(offered, ", "))
	}
}
