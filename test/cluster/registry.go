package cluster

import (
	"archive/tar"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Registry serves images to whoever pulls them: over plain HTTP on the loopback
// address, or to a cluster by TLS.
type Registry struct {
	// Host is its name in references: <address>:<port>.
	Host string
	// Authority is a file with the certificate of who signed its own; empty: it has
	// none.
	Authority string
	// User and Password are asked for unless they are empty. Set them before
	// anything is asked of it.
	User, Password string

	server *httptest.Server

	mu    sync.Mutex
	blobs map[string][]byte     // by digest
	tags  map[string]descriptor // by repository:tag
	pulls map[string]int        // how often a manifest was asked for
}

func emptyRegistry() *Registry {
	return &Registry{blobs: map[string][]byte{}, tags: map[string]descriptor{}, pulls: map[string]int{}}
}

// NewRegistry starts a registry without images.
func NewRegistry() *Registry {
	r := emptyRegistry()
	r.server = httptest.NewServer(r)
	r.Host = r.server.Listener.Addr().String()
	return r
}

// Registry starts a registry without images on the host. Pods reach it, and the nodes
// believe its certificate, which is signed by the cluster's authority.
func (c *Cluster) Registry(ctx context.Context) (*Registry, error) {
	const name = "registry"
	if err := c.authority.issue(identity{name: name, user: name, ips: []string{c.HostAddress()}}); err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(c.authority.file(name+".crt"), c.authority.file(name+".key"))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of a registry: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(c.HostAddress(), "0"))
	if err != nil {
		return nil, fmt.Errorf("starting a registry: %w", err)
	}
	r := emptyRegistry()
	r.Host, r.Authority = listener.Addr().String(), c.authority.file("ca.crt")
	for _, node := range c.Nodes {
		config := fmt.Sprintf("server = %q\nca = %q\n", "https://"+r.Host, r.Authority)
		if err := node.write("registry/"+r.Host+"/hosts.toml", config); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	r.server = &httptest.Server{Listener: listener, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, Config: &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}}
	r.server.StartTLS()
	return r, nil
}

// Close stops it.
func (r *Registry) Close() { r.server.Close() }

// Pulls is how often the manifest of repository:tag was asked for.
func (r *Registry) Pulls(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls[name]
}

// Push makes an image known as <Host>/name, which has a tag.
func (r *Registry) Push(name string, image Image) error {
	folder, err := os.MkdirTemp("", "muster-registry-")
	if err != nil {
		return fmt.Errorf("making a folder for an image: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "image.tar")
	if err := image.Write(path); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading an image: %w", err)
	}
	defer func() { _ = file.Close() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	for in := tar.NewReader(file); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading an image: %w", err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("reading an image: %w", err)
		}
		if digest, ok := strings.CutPrefix(header.Name, "blobs/"); ok {
			r.blobs[strings.Replace(digest, "/", ":", 1)] = data
		}
		if header.Name == "index.json" {
			var index struct{ Manifests []descriptor }
			if err := json.Unmarshal(data, &index); err != nil {
				return fmt.Errorf("reading an image: %w", err)
			}
			r.tags[name] = index.Manifests[0]
		}
	}
}

// ServeHTTP answers as the distribution specification says.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.User != "" {
		if user, password, _ := request.BasicAuth(); user != r.User || password != r.Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return
		}
	}
	path := strings.TrimPrefix(request.URL.Path, "/v2/")
	if repository, reference, ok := strings.Cut(path, "/manifests/"); ok {
		d, known := r.tags[repository+":"+reference]
		if strings.HasPrefix(reference, "sha256:") {
			d, known = descriptor{MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: reference}, r.blobs[reference] != nil
		} else {
			r.pulls[repository+":"+reference]++
		}
		if !known {
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
			return
		}
		r.send(w, request, d)
		return
	}
	if _, digest, ok := strings.Cut(path, "/blobs/"); ok && r.blobs[digest] != nil {
		r.send(w, request, descriptor{MediaType: "application/octet-stream", Digest: digest})
		return
	}
	if path != "" {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown")
	}
}

func (r *Registry) send(w http.ResponseWriter, request *http.Request, d descriptor) {
	data := r.blobs[d.Digest]
	w.Header().Set("Content-Type", d.MediaType)
	w.Header().Set("Docker-Content-Digest", d.Digest)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if request.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}
