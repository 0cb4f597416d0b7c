package serve

import (
	"bytes"
	"context"
	"net/url"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/authority"
)

const (
	// gatewayAgain is the pause after the gateway's certificate could not be had.
	gatewayAgain = 2 * time.Second
	// gatewayLook is how often one is looked for that replaces the one which is shown.
	gatewayLook = time.Minute
)

// hosts are those that the certificate is for.
func (g *front) hosts() []string {
	name := v1alpha1.GatewayName
	all := []string{name, name + "." + v1alpha1.SystemNamespace, name + "." + v1alpha1.SystemNamespace + ".svc", name + "." + v1alpha1.SystemNamespace + ".svc.cluster.local", "localhost", "127.0.0.1"}
	if at, err := url.Parse(g.endpoint); err == nil && at.Hostname() != "" && at.Hostname() != all[2] {
		all = append(all, at.Hostname())
	}
	return all
}

// begin makes the first certificate, as often as it takes. It reports whether there is
// one: false once ctx has ended.
func (c *counter) begin(ctx context.Context, shown *gateway.Certificate) bool {
	for {
		err := c.certify(ctx, shown)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			c.log.Warn("the S3 gateway stays closed", "error", err)
		}
		if !pause(ctx, gatewayAgain) {
			return false
		}
	}
}

// renew replaces the certificate in time, until ctx ends.
func (c *counter) renew(ctx context.Context, shown *gateway.Certificate) {
	every := authority.Life * 2 / 3
	if c.certificate != "" {
		every = gatewayLook
	}
	next := every
	for pause(ctx, next) {
		next = every
		if err := c.certify(ctx, shown); err != nil {
			c.log.Warn("the S3 gateway's certificate could not be replaced", "error", err)
			next = gatewayLook
		}
	}
}

// pause reports false where ctx ended before it was over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (c *counter) authority(ctx context.Context) (*authority.Authority, error) {
	return authority.Open(ctx, c.api, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.GatewayName + "-authority"}, time.Now())
}

// given is the certificate that an administrator gives.
func (c *counter) given(ctx context.Context) (authority.Given, error) {
	at, err := url.Parse(c.endpoint)
	if err != nil {
		return authority.Given{}, err
	}
	return authority.OpenGiven(ctx, c.api, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: c.certificate}, at.Hostname(), time.Now())
}

// certify has a certificate signed, or reads the one that is given, and shows it.
func (c *counter) certify(ctx context.Context, shown *gateway.Certificate) error {
	if c.certificate != "" {
		g, err := c.given(ctx)
		if err != nil || bytes.Equal(g.Chain, c.last) {
			return err
		}
		if err = shown.Use(g.Chain, g.Key); err == nil {
			c.last = g.Chain
		}
		return err
	}
	signer, err := c.authority(ctx)
	if err != nil {
		return err
	}
	public, private, err := signer.Issue(c.hosts(), time.Now())
	if err != nil {
		return err
	}
	return shown.Use(public, private)
}

// bundle is what clients have to trust. Empty: what they trust anyway.
func (c *counter) bundle(ctx context.Context) ([]byte, error) {
	if c.certificate != "" {
		g, err := c.given(ctx)
		return g.Bundle, err
	}
	signer, err := c.authority(ctx)
	if err != nil {
		return nil, err
	}
	return signer.Bundle(), nil
}
