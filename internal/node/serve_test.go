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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/utils/exec"

	"github.com/muster-dev/muster/internal/node/rig"
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

// apiServer is the API server as the kubelet API knows it.
type apiServer struct {
	t     *testing.T
	ca    *authority
	caPEM []byte
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	ca := newAuthority(t)
	return &apiServer{t: t, ca: ca, caPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})}
}

// trust makes a node serve its kubelet API, to this server alone.
func (s *apiServer) trust(c *Config) {
	serving, err := tls.X509KeyPair(s.ca.pair(s.t, "node"))
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.ca.cert)
	c.Serving, c.ClientCAs, c.ClientName = &serving, pool, "apiserver"
}

// client is how somebody of that name reaches the node.
func (s *apiServer) client(w *world, name string) *rest.Config {
	cert, key := s.ca.pair(s.t, name)
	return &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", w.node.apiPort), TLSClientConfig: rest.TLSClientConfig{CAData: s.caPEM, CertData: cert, KeyData: key}}
}

// stream makes a request that takes over the connection.
func stream(t *testing.T, server *rest.Config, path string, query url.Values, o remotecommand.StreamOptions) error {
	t.Helper()
	target, err := url.Parse(server.Host + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(server, http.MethodPost, target)
	if err != nil {
		t.Fatal(err)
	}
	return executor.StreamWithContext(t.Context(), o)
}

func TestKubeletAPI(t *testing.T) {
	api := newAPIServer(t)
	w := newWorld(t, api.trust)
	server := api.client(w, "apiserver")
	end := rig.NewPipe(t)
	w.create(newPod("talks", `test -f again || { touch again; echo before; exit 1; }; echo one; echo two; `+end.Await()+`; echo three`).restart(corev1.RestartPolicyOnFailure))
	w.await("talks", "run again", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})

	t.Run("strangers get nothing", func(t *testing.T) {
		for _, stranger := range []*rest.Config{api.client(w, "somebody"), {Host: server.Host, TLSClientConfig: rest.TLSClientConfig{CAData: api.caPEM}}} {
			if answer, err := get(t, stranger, "/pods"); err == nil {
				t.Errorf("got %q", answer)
			}
		}
	})
	t.Run("logs", func(t *testing.T) {
		followUntil(t, server, "/containerLogs/default/talks/main?follow=true", "one\ntwo\n")
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
			err := stream(t, server, "/exec/default/talks/main", url.Values{"command": {"/bin/sh", "-c", script}, "input": {"1"}, "output": {"1"}, "error": {"1"}},
				remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs})
			var exit utilexec.ExitError
			if code == 0 && (err != nil || out.String() != "hello" || !strings.Contains(errs.String(), w.data)) {
				t.Errorf("got %q, %q, %v", out.String(), errs.String(), err)
			}
			if code != 0 && (!errors.As(err, &exit) || exit.ExitStatus() != code) {
				t.Errorf("got %v, want exit code %d", err, code)
			}
		}
	})
	t.Run("exec of a program that is not there", func(t *testing.T) {
		// A terminal has one output, and its lines end with CR LF.
		for tty, end := range map[bool]string{false: "\n", true: "\r\n"} {
			var out, errs bytes.Buffer
			query, o := url.Values{"command": {"no-such-program"}, "output": {"1"}}, remotecommand.StreamOptions{Stdout: &out, Tty: tty}
			if tty {
				query.Set("tty", "1")
			} else {
				query.Set("error", "1")
				o.Stderr = &errs
			}
			err := stream(t, server, "/exec/default/talks/main", query, o)
			var exit utilexec.ExitError
			if !errors.As(err, &exit) || exit.ExitStatus() != 127 {
				t.Errorf("got %v, want exit code 127", err)
			}
			if told := out.String() + errs.String(); !strings.HasPrefix(told, "muster: ") || !strings.Contains(told, "no-such-program") || !strings.HasSuffix(told, end) {
				t.Errorf("a terminal: %v: told %q", tty, told)
			}
		}
	})
	t.Run("follow", func(t *testing.T) {
		end.Open()
		if got, err := get(t, server, "/containerLogs/default/talks/main?follow=true"); err != nil || got != "one\ntwo\nthree\n" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("summary", func(t *testing.T) {
		if got, err := get(t, server, "/stats/summary"); err != nil || !strings.Contains(got, `"talks"`) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	// A pod that is just about to go has its logs in the archive.
	t.Run("logs that have gone", func(t *testing.T) {
		folders, err := filepath.Glob(filepath.Join(w.data, "pods", "*", "containers", "*", "*", "logs"))
		if err != nil || len(folders) == 0 {
			t.Fatalf("logs are in %v, %v", folders, err)
		}
		for _, folder := range folders {
			if err := os.Rename(folder, folder+".archived"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := get(t, server, "/containerLogs/default/talks/main"); err == nil || !strings.HasPrefix(err.Error(), "404 ") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestAttach: what is typed reaches the main process, and its output, from
// then on, whoever attached.
func TestAttach(t *testing.T) {
	api := newAPIServer(t)
	eachTier(t, api.trust, func(t *testing.T, w *world) {
		server := api.client(w, "apiserver")
		w.create(newPod("listens", `while read -r line; do echo "got $line"; echo "noted $line" >&2; done; echo end`).with(func(p *corev1.Pod) {
			p.Spec.Containers[0].Stdin, p.Spec.Containers[0].StdinOnce = true, true
		}))
		w.await("listens", "run", inPhase(corev1.PodRunning))
		var out, errs bytes.Buffer
		err := stream(t, server, "/attach/default/listens/main", url.Values{"input": {"1"}, "output": {"1"}, "error": {"1"}},
			remotecommand.StreamOptions{Stdin: strings.NewReader("one\ntwo\n"), Stdout: &out, Stderr: &errs})
		if err != nil || out.String() != "got one\ngot two\nend\n" || errs.String() != "noted one\nnoted two\n" {
			t.Errorf("got %q, %q, %v", out.String(), errs.String(), err)
		}
		if pod := w.await("listens", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("got %+v", pod.Status)
		}

		w.create(newPod("types", `read -r line; tty >/dev/null && echo "terminal $line"`).with(func(p *corev1.Pod) {
			p.Spec.Containers[0].Stdin, p.Spec.Containers[0].TTY = true, true
		}))
		w.await("types", "run", inPhase(corev1.PodRunning))
		out.Reset()
		err = stream(t, server, "/attach/default/types/main", url.Values{"input": {"1"}, "output": {"1"}, "tty": {"1"}},
			remotecommand.StreamOptions{Stdin: strings.NewReader("hello\n"), Stdout: &out, Tty: true})
		if err != nil || !strings.Contains(out.String(), "terminal hello\r\n") {
			t.Errorf("got %q, %v", out.String(), err)
		}
	})
}

// TestPortForward: a port of the pod's own loopback is reached, in its own
// network where it has one.
func TestPortForward(t *testing.T) {
	api := newAPIServer(t)
	eachTier(t, api.trust, func(t *testing.T, w *world) {
		server := api.client(w, "apiserver")
		listening := rig.NewPipe(t)
		w.create(newPod("serves", "").with(func(p *corev1.Pod) {
			p.Spec.Containers[0].Command = []string{"python3", "-c", `
import socket, sys
s = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1], "w") as f: f.write("%d\n" % s.getsockname()[1])
while True:
    c, _ = s.accept()
    text = b""
    while (more := c.recv(1024)): text += more
    c.sendall(b"heard " + text)
    c.close()
`, listening.Path()}
		}))
		port := listening.Hear()
		transport, upgrader, err := spdy.RoundTripperFor(server)
		if err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(server.Host + "/portForward/default/serves")
		if err != nil {
			t.Fatal(err)
		}
		stop, ready := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target), []string{"0:" + port}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-done:
			t.Fatal("forwarding ended: ", err)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		near := fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
		if got, err := say(near, "hello"); got != "heard hello" {
			t.Errorf("got %q, %v", got, err)
		}
		// In the isolated tier the machine itself has nothing on that port.
		if _, err := say("127.0.0.1:"+port, "hello"); (err == nil) != (w.node.config.Tier == Plain) {
			t.Errorf("on the machine's own port: %v", err)
		}
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPortsOfOthers: no pod is a way to a port of the machine that another program listens on; nor is
// one that has no network yet.
func TestPortsOfOthers(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	dial := func(w *world, pod string) error {
		conn, err := api{w.node}.Dial(t.Context(), "default", pod, port)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	t.Run("plain", func(t *testing.T) {
		w, ends := newWorld(t, nil), rig.NewPipe(t)
		w.create(newPod("has-none", ends.Await()))
		pod := w.await("has-none", "run", inPhase(corev1.PodRunning))
		if err := dial(w, "has-none"); err == nil || !strings.Contains(err.Error(), "give it in containerPort") {
			t.Errorf("it was reached: %v", err)
		}
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port}}
		if err := w.node.reaches(pod, port); err != nil {
			t.Error(err)
		}
		ends.Open()
		w.await("has-none", "end", ended)
	})
	t.Run("isolated", func(t *testing.T) {
		pods := openNetwork(t)
		w := newWorld(t, func(c *Config) { c.Tier, c.Network = Isolated, pods })
		w.create(newPod("waits", "true").with(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "late", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}}
		}))
		w.await("waits", "say what it waits for", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
		if err := dial(w, "waits"); err == nil || !strings.Contains(err.Error(), "has no network yet") {
			t.Errorf("the machine's own port was reached: %v", err)
		}
	})
}

// say sends a text over TCP, and returns the answer.
func say(address, text string) (string, error) {
	conn, err := net.DialTimeout("tcp4", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// followUntil reads a path that does not end until it has brought a text.
func followUntil(t *testing.T, config *rest.Config, path, want string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(response.Body, got); err != nil || string(got) != want {
		t.Fatalf("%s brought %q, %v; want %q", path, got[:n], err, want)
	}
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
