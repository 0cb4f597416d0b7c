package visitor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// DirectOptions are how an agent on a node reaches the door. All are required.
type DirectOptions struct {
	// Address is the door's, such as
	// https://muster-manager.muster-system.svc:8443.
	Address string
	// Certificates returns the certificates that are trusted, as PEM: the values
	// of ConfigMap muster-door, one after the other. It is asked again when a
	// certificate is met that is not among them.
	Certificates func(context.Context) ([]byte, error)
	// Token returns the agent's token for the audience muster: what its
	// projected volume holds now.
	Token func(context.Context) (string, error)
}

// Direct returns a visitor that comes by the cluster's network.
func Direct(o DirectOptions) *Visitor {
	t := &trusting{certificates: o.Certificates}
	transport := &http.Transport{
		DialTLSContext: t.dial, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 12,
	}
	return &Visitor{
		base: o.Address, http: &http.Client{Transport: transport},
		token: func(ctx context.Context, _ string, _ bool) (string, error) { return o.Token(ctx) },
	}
}

// Behind returns a visitor behind a proxy. The proxy forwards requests with paths below prefix
// to the door, and adds the token ([Visitor.Pass]).
func Behind(transport *http.Transport, prefix string) *Visitor {
	return &Visitor{
		base: "http://agent" + prefix, http: &http.Client{Transport: transport},
		token: func(context.Context, string, bool) (string, error) { return "", nil },
	}
}

// OnMachine returns a visitor that comes by the socket of a machine, to the door below the
// address base. The door knows the user by the connection, so no token is sent.
func OnMachine(connections *http.Client, base string) *Visitor {
	return &Visitor{
		base: base, http: connections, machine: true,
		token: func(context.Context, string, bool) (string, error) { return "", nil },
	}
}

// trusting makes connections to whoever has one of the door's certificates.
type trusting struct {
	certificates func(context.Context) ([]byte, error)

	mu   sync.Mutex
	pool *x509.CertPool
}

func (t *trusting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t.mu.Lock()
	pool := t.pool
	t.mu.Unlock()
	if pool != nil {
		c, err := handshake(ctx, network, address, pool)
		var unknown x509.UnknownAuthorityError
		if err == nil || !errors.As(err, &unknown) {
			return c, err
		}
	}
	// Not known yet: a replica that has just started.
	text, err := t.certificates(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the door's certificates: %w", err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading the door's certificates: there are none in ConfigMap %s/%s yet", v1alpha1.SystemNamespace, v1alpha1.DoorName)
	}
	t.mu.Lock()
	t.pool = pool
	t.mu.Unlock()
	return handshake(ctx, network, address, pool)
}

func handshake(ctx context.Context, network, address string, pool *x509.CertPool) (net.Conn, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: 10 * time.Second},
		Config:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: v1alpha1.DoorName},
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return dialer.DialContext(ctx, network, address)
}
