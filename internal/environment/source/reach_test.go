package source

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestInnerAddresses(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": true, "::": true, "::ffff:127.0.0.1": true,
		"169.254.169.254": true, "fe80::1%lo": true, "::ffff:169.254.169.254": true, "64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true,
		"fd00:ec2::254": true, "100.100.100.200": true, "192.0.0.192": true, "168.63.129.16": true, "224.0.0.1": true, "ff02::1": true,
		"192.0.2.1": false, "10.1.2.3": false, "192.168.1.1": false, "2001:db8::1": false, "fd00::1": false, "64:ff9b::c000:201": false,
	} {
		if err := checkAddress(netip.MustParseAddr(address)); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestInnerServersAreNotAsked: a script's address leads to this machine, by a name, by a number, or by
// a redirection. No request is made, and no second try.
func TestInnerServersAreNotAsked(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	f, err := NewFetcher(FetcherOptions{Store: newStore(t), Backoff: time.Hour, Tries: 2})
	must(t, err)
	for _, url := range []string{server.URL, "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port} {
		if _, err := f.fetch(t.Context(), "", url+"/train.py"); err == nil || !strings.Contains(err.Error(), "this machine's own or that of its provider's services; use a server that other machines reach") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d requests reached the machine", hits.Load())
	}
	redirected, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	must(t, err)
	if err := f.client.CheckRedirect(redirected, nil); err == nil {
		t.Error("a redirection to this machine is followed")
	}
}
