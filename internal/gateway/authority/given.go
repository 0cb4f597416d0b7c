package authority

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Given is a certificate that somebody else has signed, in a Secret of type
// kubernetes.io/tls.
type Given struct {
	// Chain is the certificate and those between it and its authority, Key its key: PEM.
	Chain, Key []byte
	// Bundle is what clients have to trust, PEM. Empty: what they trust anyway.
	Bundle []byte
}

// OpenGiven reads the certificate in a Secret, which has to be good now, and for a host.
func OpenGiven(ctx context.Context, api client.Reader, at client.ObjectKey, host string, now time.Time) (Given, error) {
	there := &corev1.Secret{}
	err := api.Get(ctx, at, there)
	g := Given{Chain: there.Data[corev1.TLSCertKey], Key: there.Data[corev1.TLSPrivateKeyKey], Bundle: there.Data[corev1.ServiceAccountRootCAKey]}
	if err == nil {
		err = g.check(host, now)
	}
	if err != nil {
		return Given{}, fmt.Errorf("reading the certificate of the S3 gateway, Secret %s: %w", at, err)
	}
	return g, nil
}

func (g Given) check(host string, now time.Time) error {
	pair, err := tls.X509KeyPair(g.Chain, g.Key)
	if err != nil {
		return fmt.Errorf("%s and %s are no certificate and its key: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	switch {
	case now.Before(pair.Leaf.NotBefore):
		return fmt.Errorf("it begins at %s", pair.Leaf.NotBefore.Format(time.RFC3339))
	case now.After(pair.Leaf.NotAfter):
		return fmt.Errorf("it ended at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	if err := pair.Leaf.VerifyHostname(host); err != nil {
		return fmt.Errorf("users are told that the gateway is %s, and it is not for that: %w", host, err)
	}
	if len(g.Bundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(g.Bundle) {
		return fmt.Errorf("%s is no certificate: leave it out where clients trust the authority anyway", corev1.ServiceAccountRootCAKey)
	}
	return nil
}
