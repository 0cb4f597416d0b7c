package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

const (
	authorityLife = 20 * 365 * 24 * time.Hour
	identityLife  = 5 * 365 * 24 * time.Hour
	// A certificate with less than this left is renewed. It is long, because
	// a control plane may run for months between two looks.
	renewBefore = identityLife / 2
	// Clocks of one machine go back, too: after a flat battery, in a virtual
	// machine that is resumed.
	backdate = 24 * time.Hour
)

// The names of the identities: <name>.crt and <name>.key in the folder.
const (
	// APIServer is what the API server shows to its clients.
	APIServer = "apiserver"
	// Admin is the cluster administrator (group system:masters).
	Admin = "admin"
	// Controllers is the upstream controllers' identity.
	Controllers = "controllers"
	// KubeletClient is what the API server shows to a node's kubelet API. Its
	// common name is [KubeletClientName].
	KubeletClient = "kubelet-client"
	// Node is what the node's kubelet API shows to the API server.
	Node = "node"
	// Manager is Muster's controllers, as a client of the API server. Only a shared control
	// plane has it.
	Manager = "manager"
	// NodeClient is the node, as a client of the API server. Only a shared control plane
	// has it.
	NodeClient = "node-client"
	// FrontProxy is what the front proxy shows to the API server. The proxies' authority
	// signs it. Only a shared control plane has it.
	FrontProxy = "front-proxy"
)

// The users of the certificates of the administrator and of Muster's own parts, and the
// name of the proxy's.
const (
	AdminUser      = "muster-admin"
	ManagerUser    = "muster:manager"
	NodeUser       = "muster:node"
	FrontProxyName = "muster-front-proxy"
)

// The names of the authorities.
const (
	firstAuthority   = "ca"
	proxiesAuthority = "proxy-ca"
)

// KubeletClientName is the common name in the certificate that the API server
// shows to a node's kubelet API.
const KubeletClientName = "muster:kube-apiserver"

// ownParts are the clients of a shared control plane.
func ownParts() []spec {
	// The group gives a node no rights, and seats at the API server that are those of nodes.
	nodes := []string{"system:nodes"}
	return []spec{
		{name: Manager, subject: pkix.Name{CommonName: ManagerUser}, usage: x509.ExtKeyUsageClientAuth},
		{name: NodeClient, subject: pkix.Name{CommonName: NodeUser, Organization: nodes}, usage: x509.ExtKeyUsageClientAuth},
	}
}

// Set is a folder of certificates and keys, all present and valid.
type Set struct {
	dir string
	// Renewed lists the files that [Ensure] wrote.
	Renewed []string
}

// spec says what an identity's certificate must hold.
type spec struct {
	name    string
	subject pkix.Name
	usage   x509.ExtKeyUsage
	dns     []string
	ips     []net.IP
}

func specs(serviceIP net.IP) []spec {
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	masters := []string{"system:masters"}
	return []spec{
		{
			name: APIServer, subject: pkix.Name{CommonName: "kube-apiserver"}, usage: x509.ExtKeyUsageServerAuth,
			dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			ips: append([]net.IP{serviceIP}, loopback...),
		},
		{name: Node, subject: pkix.Name{CommonName: "muster-node"}, usage: x509.ExtKeyUsageServerAuth, dns: []string{"localhost"}, ips: loopback},
		{name: Admin, subject: pkix.Name{CommonName: AdminUser, Organization: masters}, usage: x509.ExtKeyUsageClientAuth},
		{name: Controllers, subject: pkix.Name{CommonName: "system:kube-controller-manager", Organization: masters}, usage: x509.ExtKeyUsageClientAuth},
		{name: KubeletClient, subject: pkix.Name{CommonName: KubeletClientName}, usage: x509.ExtKeyUsageClientAuth},
	}
}

// Ensure makes dir hold an authority, every identity and the service account
// key, all valid at now for a good while. serviceIP is the address of the
// Service "kubernetes", which the API server's certificate names. What is good
// is left alone; a new authority renews everything that hangs from the old. With
// shared, dir also has the identities of Muster's own parts, and the proxies'
// authority with the identity of the front proxy.
func Ensure(dir string, serviceIP net.IP, now time.Time, shared bool) (*Set, error) {
	if err := osfile.MakeFolder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the certificate folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("closing the certificate folder to others: %w", err)
	}
	set := &Set{dir: dir}
	wanted := specs(serviceIP)
	if shared {
		wanted = append(wanted, ownParts()...)
	}
	if err := set.identities(firstAuthority, wanted, now); err != nil {
		return nil, err
	}
	if shared {
		proxy := spec{name: FrontProxy, subject: pkix.Name{CommonName: FrontProxyName}, usage: x509.ExtKeyUsageClientAuth}
		if err := set.identities(proxiesAuthority, []spec{proxy}, now); err != nil {
			return nil, err
		}
	}
	if err := set.serviceAccountKey(); err != nil {
		return nil, err
	}
	return set, nil
}

// identities makes an authority, and the identities that hang from it.
func (s *Set) identities(authority string, wanted []spec, now time.Time) error {
	from, err := s.authority(authority, now)
	if err != nil {
		return err
	}
	for _, want := range wanted {
		if s.fits(want, from.Leaf, now) {
			continue
		}
		if err := s.issue(want, from, now); err != nil {
			return err
		}
	}
	return nil
}

// CAFile is the path of the authority's certificate, PEM.
func (s *Set) CAFile() string { return CertFile(s.dir, firstAuthority) }

// ProxiesCAFile is the path of the certificate of the authority of front proxies, PEM, in
// the folder dir.
func ProxiesCAFile(dir string) string { return CertFile(dir, proxiesAuthority) }

// CertFile is the path of an identity's certificate, PEM, in the folder dir.
func CertFile(dir, name string) string { return filepath.Join(dir, name+".crt") }

// KeyFile is the path of an identity's key, PEM, in the folder dir.
func KeyFile(dir, name string) string { return filepath.Join(dir, name+".key") }

// ServiceAccountKeyFile is the path of the key that signs service account
// tokens, in the folder dir.
func ServiceAccountKeyFile(dir string) string { return filepath.Join(dir, "service-account.key") }

// CertFile is the path of an identity's certificate, PEM.
func (s *Set) CertFile(name string) string { return CertFile(s.dir, name) }

// KeyFile is the path of an identity's key, PEM.
func (s *Set) KeyFile(name string) string { return KeyFile(s.dir, name) }

// CAPool is a pool that holds the authority alone.
func (s *Set) CAPool() (*x509.CertPool, error) {
	data, err := os.ReadFile(s.CAFile())
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("reading the certificate authority: no certificate in %s", s.CAFile())
	}
	return pool, nil
}

// load reads an identity; nil if it is missing, torn or its key is another's,
// whatever the reason: it is then made anew.
func (s *Set) load(name string) *tls.Certificate {
	pair, err := tls.LoadX509KeyPair(s.CertFile(name), s.KeyFile(name))
	if err != nil {
		return nil
	}
	return &pair
}

func (s *Set) authority(name string, now time.Time) (*tls.Certificate, error) {
	pair := s.load(name)
	if pair != nil && pair.Leaf.IsCA && now.After(pair.Leaf.NotBefore) && now.Before(pair.Leaf.NotAfter.Add(-identityLife)) {
		return pair, nil
	}
	subject := pkix.Name{CommonName: "muster"}
	if name != firstAuthority {
		subject.CommonName += "-" + name
	}
	template := &x509.Certificate{
		Subject:               subject,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if err := s.sign(name, template, nil); err != nil {
		return nil, err
	}
	made, err := tls.LoadX509KeyPair(s.CertFile(name), s.KeyFile(name))
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate authority %q: %w", name, err)
	}
	return &made, nil
}

// fits tells whether the identity on disk is what is wanted and has long
// enough to live.
func (s *Set) fits(want spec, authority *x509.Certificate, now time.Time) bool {
	pair := s.load(want.name)
	if pair == nil {
		return false
	}
	leaf := pair.Leaf
	if leaf.CheckSignatureFrom(authority) != nil || now.Before(leaf.NotBefore) || now.After(leaf.NotAfter.Add(-renewBefore)) {
		return false
	}
	if leaf.Subject.String() != want.subject.String() || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != want.usage {
		return false
	}
	for _, name := range want.dns {
		if leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	for _, ip := range want.ips {
		if leaf.VerifyHostname(ip.String()) != nil {
			return false
		}
	}
	return true
}

func (s *Set) issue(want spec, authority *tls.Certificate, now time.Time) error {
	return s.sign(want.name, &x509.Certificate{
		Subject:     want.subject,
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(identityLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{want.usage},
		DNSNames:    want.dns,
		IPAddresses: want.ips,
	}, authority)
}

// sign makes a key, and its certificate from template, signed by authority or,
// without one, by itself; the key is written first, so that a crash between the
// two leaves a pair that does not fit together and is made anew.
func (s *Set) sign(name string, template *x509.Certificate, authority *tls.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating a key for certificate %q: %w", name, err)
	}
	parent, signer := template, any(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	der, err := certify(template, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("signing certificate %q: %w", name, err)
	}
	if err := s.writeKey(s.KeyFile(name), key); err != nil {
		return err
	}
	return s.write(s.CertFile(name), &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serviceAccountKey makes the key that signs service account tokens. An
// existing one is kept whatever its age: a new one would invalidate every token
// that was given out.
func (s *Set) serviceAccountKey() error {
	path := ServiceAccountKeyFile(s.dir)
	data, err := os.ReadFile(path)
	if err == nil {
		if block, _ := pem.Decode(data); block != nil {
			if _, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return nil
			}
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the service account key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the service account key: %w", err)
	}
	return s.writeKey(path, key)
}

func (s *Set) writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return s.write(path, &pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func (s *Set) write(path string, block *pem.Block) error {
	if err := WriteFile(path, pem.EncodeToMemory(block)); err != nil {
		return err
	}
	s.Renewed = append(s.Renewed, filepath.Base(path))
	return nil
}

// WriteFile replaces the file at path by one that its owner alone may read. The file
// survives a loss of power: clients and nodes keep certificates that a key has signed.
func WriteFile(path string, data []byte) error {
	return osfile.Replace(path, data, 0o600)
}
