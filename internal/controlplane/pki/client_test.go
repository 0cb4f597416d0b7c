package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestShared: each authority signs its own clients, and no client of one hangs from the
// other.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	set, err := Ensure(dir, serviceIP, now, true)
	if err != nil {
		t.Fatal(err)
	}
	first, err := set.CAPool()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(ProxiesCAFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	proxies := x509.NewCertPool()
	proxies.AppendCertsFromPEM(data)
	for name, want := range map[string]struct {
		user        string
		from, other *x509.CertPool
	}{
		Manager: {ManagerUser, first, proxies}, NodeClient: {NodeUser, first, proxies}, FrontProxy: {FrontProxyName, proxies, first},
	} {
		pair, err := tls.LoadX509KeyPair(set.CertFile(name), set.KeyFile(name))
		if err != nil {
			t.Fatal(err)
		}
		options := x509.VerifyOptions{Roots: want.from, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if _, err := pair.Leaf.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		options.Roots = want.other
		if _, err := pair.Leaf.Verify(options); err == nil {
			t.Errorf("%s hangs from the other authority, too", name)
		}
		if groups := pair.Leaf.Subject.Organization; pair.Leaf.Subject.CommonName != want.user || slices.Contains(groups, "system:masters") {
			t.Errorf("%s is %s", name, pair.Leaf.Subject)
		}
	}
	if again, err := Ensure(dir, serviceIP, now, true); err != nil || len(again.Renewed) > 0 {
		t.Errorf("renewed %v, %v", again.Renewed, err)
	}
	if err := os.Remove(filepath.Join(dir, "proxy-ca.key")); err != nil {
		t.Fatal(err)
	}
	again, err := Ensure(dir, serviceIP, now, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"proxy-ca.key", "proxy-ca.crt", "front-proxy.key", "front-proxy.crt"}; !slices.Equal(again.Renewed, want) {
		t.Errorf("renewed %v, want %v", again.Renewed, want)
	}
}

func TestClient(t *testing.T) {
	dir := t.TempDir()
	set := ensure(t, dir, serviceIP, now)
	signer, err := set.Signer()
	if err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	curve, _, weak := keys(t)
	good := ClientRequest{PublicKey: curve, User: "unix:1000", Groups: []string{"unix-group:system:masters"}, Life: ClientLife}
	for _, test := range []struct {
		name   string
		change func(*ClientRequest)
		want   string // of the error; empty: signed
	}{
		{"a user", func(*ClientRequest) {}, ""},
		{"Ed25519", func(r *ClientRequest) { _, r.PublicKey, _ = keys(t) }, ""},
		{"no user", func(r *ClientRequest) { r.User = "" }, "no user"},
		{"a user of Kubernetes", func(r *ClientRequest) { r.User = "system:admin" }, "system:admin"},
		{"a part of Muster", func(r *ClientRequest) { r.User = ManagerUser }, ManagerUser},
		{"a group of Kubernetes", func(r *ClientRequest) { r.Groups = []string{"system:masters"} }, "system:masters"},
		{"an empty group", func(r *ClientRequest) { r.Groups = []string{""} }, "not allowed"},
		{"too long", func(r *ClientRequest) { r.Life = ClientLife + time.Nanosecond }, "at most 15m0s"},
		{"no life", func(r *ClientRequest) { r.Life = 0 }, "at most 15m0s"},
		{"a small key", func(r *ClientRequest) { r.PublicKey = weak }, "2048"},
		{"no key", func(r *ClientRequest) { r.PublicKey = nil }, "not usable"},
		{"no ECDSA key", func(r *ClientRequest) { r.PublicKey = (*ecdsa.PublicKey)(nil) }, "not usable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := good
			test.change(&request)
			data, err := signer.Client(request, now)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want one with %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode(data)
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if leaf.Subject.CommonName != request.User || !slices.Equal(leaf.Subject.Organization, request.Groups) || leaf.IsCA {
				t.Errorf("signed %s", leaf.Subject)
			}
			pool, err := set.CAPool()
			if err != nil {
				t.Fatal(err)
			}
			for at, valid := range map[time.Duration]bool{0: true, request.Life: true, request.Life + time.Second: false} {
				_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now.Add(at), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
				if (err == nil) != valid {
					t.Errorf("after %s: %v, want valid: %v", at, err, valid)
				}
			}
		})
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("signing left %v, there was %v", after, before)
	}
}

// keys returns two good public keys, and one that is too small.
func keys(t *testing.T) (curve, edwards, weak crypto.PublicKey) {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return &ec.PublicKey, ed, &small.PublicKey
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
