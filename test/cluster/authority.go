package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// lifetime is longer than any test.
const lifetime = 48 * time.Hour

// authority signs all certificates of a cluster. Its files, and those of the
// identities, lie in one folder as <name>.crt and <name>.key.
type authority struct {
	dir    string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	serial int64
}

// identity is who a certificate says that its owner is.
type identity struct {
	// name of the files.
	name string
	// user and groups as the API server reads them.
	user   string
	groups []string
	// ips and dns that a server is reached by.
	ips []string
	dns []string
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	a := &authority{dir: dir}
	template := a.template(pkix.Name{CommonName: "muster test cluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	key, raw, err := a.sign("ca", template)
	if err != nil {
		return nil, err
	}
	a.key = key
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, fmt.Errorf("reading the authority's own certificate: %w", err)
	}
	// The key that signs service accounts' tokens is no certificate's.
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of service accounts: %w", err)
	}
	return a, a.writeKey("service-account", tokens)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) template(subject pkix.Name) *x509.Certificate {
	a.serial++
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// issue writes a certificate that is good for clients and servers alike.
func (a *authority) issue(who identity) error {
	template := a.template(pkix.Name{CommonName: who.user, Organization: who.groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.DNSNames = who.dns
	for _, ip := range who.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	_, _, err := a.sign(who.name, template)
	return err
}

// sign makes a key and its certificate; the authority's own signs itself.
func (a *authority) sign(name string, template *x509.Certificate) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	if err := os.WriteFile(a.file(name+".crt"), block, 0o600); err != nil {
		return nil, nil, fmt.Errorf("writing the certificate of %s: %w", name, err)
	}
	return key, raw, a.writeKey(name, key)
}

func (a *authority) writeKey(name string, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
	if err := os.WriteFile(a.file(name+".key"), block, 0o600); err != nil {
		return fmt.Errorf("writing the key of %s: %w", name, err)
	}
	return nil
}

// kubeconfig issues a client's certificate and writes a kubeconfig with it,
// whole: it can be copied. It returns the file.
func (a *authority) kubeconfig(server string, who identity) (string, error) {
	if err := a.issue(who); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: a.file("ca.crt")}
	config.AuthInfos[who.name] = &clientcmdapi.AuthInfo{ClientCertificate: a.file(who.name + ".crt"), ClientKey: a.file(who.name + ".key")}
	config.Contexts["cluster"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: who.name}
	config.CurrentContext = "cluster"
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return "", fmt.Errorf("embedding the certificates of %s: %w", who.name, err)
	}
	path := a.file(who.name + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", who.name, err)
	}
	return path, nil
}
