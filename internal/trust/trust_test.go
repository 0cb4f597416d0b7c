package trust

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// authority writes the certificate of a server that signs for itself.
func authority(t *testing.T, path string) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server
}

// asks says how a question to a server ends.
func asks(t *testing.T, server *httptest.Server, pool *x509.CertPool) error {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err == nil {
		err = answer.Body.Close()
	}
	return err
}

func TestFolder(t *testing.T) {
	// As a kubelet mounts a ConfigMap.
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "..1"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := authority(t, filepath.Join(folder, "..1", "ca.crt"))
	for link, to := range map[string]string{"..data": "..1", "ca.crt": "..data/ca.crt"} {
		if err := os.Symlink(to, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	without, err := Pool("")
	if err != nil {
		t.Fatal(err)
	}
	if err := asks(t, server, without); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of an authority that nobody knows: %v", err)
	}
	with, err := Pool(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := asks(t, server, with); err != nil {
		t.Error(err)
	}
	if with.Equal(without) {
		t.Error("it is among the system's already")
	}
}

func TestBadFolder(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"", "", "holds no file"},
		{".hidden", "x", "holds no file"},
		{"ca.crt", "", "ca.crt holds no certificate"},
		{"ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca.crt holds no certificate"},
	} {
		folder := t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(folder, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Pool(folder); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.file, err)
		}
	}
	if _, err := Pool(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}

// A system without authorities has Mozilla's; one with some has these alone.
func TestComplete(t *testing.T) {
	all, mine := x509.NewCertPool(), x509.NewCertPool()
	if err := complete(all); err != nil {
		t.Fatal(err)
	}
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if mine.Equal(x509.NewCertPool()) {
			mine.AddCert(certificate)
		}
		if root.Constraint != nil {
			continue // counts for what was signed before a day
		}
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: all, CurrentTime: certificate.NotBefore.AddDate(0, 0, 1), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", certificate.Subject, err)
		}
	}
	if all.Equal(x509.NewCertPool()) {
		t.Error("nobody is believed")
	}
	before := mine.Clone()
	if err := complete(mine); err != nil || !mine.Equal(before) {
		t.Errorf("%v: more are believed than the system believes", err)
	}
}

// Where variables say which the system's authorities are, and there are none, nobody is
// believed. The system's are read once, so it takes a program of its own.
func TestNobodyByVariables(t *testing.T) {
	if os.Getenv(fileVariable) != "/nonexistent" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNobodyByVariables$") //nolint:gosec // it is this program
		again.Env = append(os.Environ(), fileVariable+"=/nonexistent", dirVariable+"=/nonexistent")
		if said, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
		return
	}
	pool, err := Pool("")
	if err != nil || !pool.Equal(x509.NewCertPool()) {
		t.Errorf("%v: somebody is believed", err)
	}
}
