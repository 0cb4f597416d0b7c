package authority

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// life is for how long the authority is good.
	life = 10 * 365 * 24 * time.Hour
	// Life is for how long a certificate is good that it signs.
	Life = 30 * 24 * time.Hour
	// clockSkew is by how much the clocks of others may be behind.
	clockSkew = 10 * time.Minute
)

// Authority signs certificates.
type Authority struct {
	signed *x509.Certificate
	key    crypto.Signer
	bundle []byte
}

// Open reads the authority in a Secret, which is made if it is missing.
func Open(ctx context.Context, api client.Client, at client.ObjectKey, now time.Time) (*Authority, error) {
	there := &corev1.Secret{}
	err := api.Get(ctx, at, there)
	if apierrors.IsNotFound(err) {
		if there, err = begin(at, now); err != nil {
			return nil, fmt.Errorf("making the authority of the S3 gateway: %w", err)
		}
		if err = api.Create(ctx, there); apierrors.IsAlreadyExists(err) {
			err = api.Get(ctx, at, there) // another replica was faster
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the S3 gateway, Secret %s: %w", at, err)
	}
	a, err := read(there, now)
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the S3 gateway, Secret %s: %w: delete the Secret, and another is made; S3 clients then need its bundle (muster data key create)", at, err)
	}
	return a, nil
}

// begin is a new authority.
func begin(at client.ObjectKey, now time.Time) (*corev1.Secret, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: at.Name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life),
		IsCA: true, MaxPathLenZero: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	public, private, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}, Type: corev1.SecretTypeTLS, Immutable: new(true),
		Data: map[string][]byte{corev1.TLSCertKey: public, corev1.TLSPrivateKeyKey: private},
	}, nil
}

func read(s *corev1.Secret, now time.Time) (*Authority, error) {
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	key, is := pair.PrivateKey.(crypto.Signer)
	switch {
	case !is || !pair.Leaf.IsCA:
		return nil, errors.New("it is no authority")
	case now.Add(Life).After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("it ends at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	return &Authority{signed: pair.Leaf, key: key, bundle: s.Data[corev1.TLSCertKey]}, nil
}

// Bundle is what clients have to trust, PEM.
func (a *Authority) Bundle() []byte { return a.bundle }

// Issue signs a certificate for hosts, names or addresses, that is good for [Life]: the
// certificate and its key, PEM.
func (a *Authority) Issue(hosts []string, now time.Time) (public, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key for the S3 gateway: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(Life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	public, private, err = sign(template, a.signed, key, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate for the S3 gateway: %w", err)
	}
	return public, private, nil
}

// sign makes a certificate for a key and signs it: both PEM.
func sign(template, by *x509.Certificate, key *ecdsa.PrivateKey, with crypto.Signer) (public, private []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), with)
	if err != nil {
		return nil, nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), nil
}
