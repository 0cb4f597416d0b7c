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
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

const (
	// ClientLife is the longest life of a certificate that [Signer.Client] signs. It cannot
	// be taken back before its end.
	ClientLife = 15 * time.Minute
	// clientBackdate allows for a clock that is set back by a few seconds.
	clientBackdate = time.Minute
	// minRSA is the smallest RSA key that is signed, in bits.
	minRSA = 2048
)

// ClientRequest asks for the certificate of a user.
type ClientRequest struct {
	// PublicKey is the user's: ECDSA, Ed25519, or RSA of at least 2048 bits.
	PublicKey crypto.PublicKey
	// User and Groups are the names by which the API server knows the holder. Names that
	// begin with system: or muster: are refused.
	User   string
	Groups []string
	// Life is the time until the certificate ends, more than zero and at most [ClientLife].
	Life time.Duration
}

// Signer signs certificates of users.
type Signer struct{ authority *tls.Certificate }

// Signer returns the signer of the first authority, whose certificates are those of users.
func (s *Set) Signer() (*Signer, error) {
	pair, err := tls.LoadX509KeyPair(s.CertFile(firstAuthority), s.KeyFile(firstAuthority))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	return &Signer{authority: &pair}, nil
}

// Client returns a client's certificate, PEM. It writes nothing.
func (s *Signer) Client(r ClientRequest, now time.Time) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	der, err := certify(&x509.Certificate{
		Subject:     pkix.Name{CommonName: r.User, Organization: r.Groups},
		NotBefore:   now.Add(-clientBackdate),
		NotAfter:    now.Add(r.Life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, s.authority.Leaf, r.PublicKey, s.authority.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %q: %w", r.User, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// Sign is [Signer.Client] at the time of now.
func (s *Signer) Sign(key crypto.PublicKey, user string, groups []string, life time.Duration) ([]byte, error) {
	return s.Client(ClientRequest{PublicKey: key, User: user, Groups: groups, Life: life}, time.Now())
}

func (r ClientRequest) check() error {
	if r.User == "" {
		return errors.New("the certificate has no user: name one")
	}
	for _, name := range slices.Concat([]string{r.User}, r.Groups) {
		if name == "" || strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "muster:") {
			return fmt.Errorf("the name %q is not allowed in a user's certificate: names that begin with system: or muster: are those of the machinery", name)
		}
	}
	if r.Life <= 0 || r.Life > ClientLife {
		return fmt.Errorf("the certificate's life is %s: give more than 0s and at most %s", r.Life, ClientLife)
	}
	return checkKey(r.PublicKey)
}

func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			return nil
		}
	case *ecdsa.PublicKey:
		if key != nil && (key.Curve == elliptic.P256() || key.Curve == elliptic.P384() || key.Curve == elliptic.P521()) {
			return nil
		}
	case *rsa.PublicKey:
		if key != nil && key.N != nil && key.N.BitLen() >= minRSA {
			return nil
		}
	}
	return fmt.Errorf("the public key (%T) is not usable: give one of ECDSA (P-256, P-384, P-521), Ed25519, or RSA of at least %d bits", key, minRSA)
}

// certify signs a certificate and returns its DER. It writes nothing.
func certify(template, parent *x509.Certificate, public crypto.PublicKey, signer any) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}
