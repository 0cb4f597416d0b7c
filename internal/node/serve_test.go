package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = issue(t, template, nil)
	return a
}

// issue makes a certificate; without an authority it signs itself.
func issue(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) pair(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	cert, key := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func TestKubeletAPI(t *testing.T) {
	ca := newAuthority(t)
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	serving, err := tls.X509KeyPair(ca.pair(t, "node"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	w := newWorld(t, func(c *Config) { c.Serving, c.ClientCAs, c.ClientName = &serving, pool, "apiserver" })
	base := fmt.Sprintf("https://127.0.0.1:%d", w.node.apiPort)
	config := func(name string) *rest.Config {
		cert, key := ca.pair(t, name)
		return &rest.Config{Host: base, TLSClientConfig: rest.TLSClientConfig{CAData: caPEM, CertData: cert, KeyData: key}}
	}
	server := config("apiserver")
	w.create(newPod("talks", `test -f again || { touch again; echo before; exit 1; }; echo one; echo two; while ! test -f end; do sleep 0.02; done; echo three`).restart(corev1.RestartPolicyOnFailure))
	w.await("talks", "run again", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})

	t.Run("strangers get nothing", func(t *testing.T) {
		for _, stranger := range []*rest.Config{config("somebody"), {Host: base, TLSClientConfig: rest.TLSClientConfig{CAData: caPEM}}} {
			if answer, err := get(t, stranger, "/pods"); err == nil {
				t.Errorf("got %q", answer)
			}
		}
	})
	t.Run("logs", func(t *testing.T) {
		poll(t, "output", func() bool {
			out, err := get(t, server, "/containerLogs/default/talks/main")
			return err == nil && out == "one\ntwo\n"
		})
		for query, want := range map[string]string{"?tailLines=1": "two\n", "?tailLines=0": "", "?limitBytes=5": "one\nt", "?previous=true": "before\n"} {
			if got, err := get(t, server, "/containerLogs/default/talks/main"+query); err != nil || got != want {
				t.Errorf("%s: got %q, %v; want %q", query, got, err, want)
			}
		}
		for _, path := range []string{"/containerLogs/default/none/main", "/containerLogs/default/talks/none", "/containerLogs/default/talks/main?tailLines=-1"} {
			if got, err := get(t, server, path); err == nil {
				t.Errorf("%s: got %q", path, got)
			}
		}
	})
	t.Run("exec", func(t *testing.T) {
		for code, script := range map[int]string{0: `cat; echo "$MUSTER_ROOT" >&2`, 3: "exit 3"} {
			var out, errs bytes.Buffer
			query := url.Values{"command": {"/bin/sh", "-c", script}, "input": {"1"}, "output": {"1"}, "error": {"1"}}
			target, err := url.Parse(base + "/exec/default/talks/main?" + query.Encode())
			if err != nil {
				t.Fatal(err)
			}
			executor, err := remotecommand.NewSPDYExecutor(server, http.MethodPost, target)
			if err != nil {
				t.Fatal(err)
			}
			err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs})
			var exit utilexec.ExitError
			if code == 0 && (err != nil || out.String() != "hello" || !strings.Contains(errs.String(), w.data)) {
				t.Errorf("got %q, %q, %v", out.String(), errs.String(), err)
			}
			if code != 0 && (!errors.As(err, &exit) || exit.ExitStatus() != code) {
				t.Errorf("got %v, want exit code %d", err, code)
			}
		}
	})
	t.Run("follow", func(t *testing.T) {
		touch(t, w.dir("talks")+"/root/end")
		if got, err := get(t, server, "/containerLogs/default/talks/main?follow=true"); err != nil || got != "one\ntwo\nthree\n" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("summary", func(t *testing.T) {
		if got, err := get(t, server, "/stats/summary"); err != nil || !strings.Contains(got, `"talks"`) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// get reads a path; an answer other than 200 is an error.
func get(t *testing.T, config *rest.Config, path string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", response.Status, data)
	}
	return string(data), err
}
