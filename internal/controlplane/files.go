package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/controlplane/pki"
)

// authentication lets nobody in without a certificate or token, but for the
// questions whether the server lives.
const authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
`

// sharedAuthentication lets nobody in at all without a certificate or token: other users
// of the machine reach the port.
const sharedAuthentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: false
`

// NodeCredentials are what the node's kubelet API needs, so that the API
// server and nobody else can use it.
type NodeCredentials struct {
	// Certificate is what the kubelet API shows: valid for localhost and
	// 127.0.0.1, which must be the node's Hostname or InternalIP address.
	Certificate tls.Certificate
	// ClientCAs is the authority that the API server's certificate hangs from.
	ClientCAs *x509.CertPool
	// ClientName is the common name of the certificate that the API server
	// shows. Other certificates of the same authority must be refused.
	ClientName string
}

// TLSConfig is a server's configuration that shows the certificate and lets in
// the API server alone.
func (n NodeCredentials) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{n.Certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    n.ClientCAs,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != n.ClientName {
				return fmt.Errorf("the kubelet API is for the API server alone, not for %q", name)
			}
			return nil
		},
	}
}

func nodeCredentials(set *pki.Set) (NodeCredentials, error) {
	certificate, err := tls.LoadX509KeyPair(set.CertFile(pki.Node), set.KeyFile(pki.Node))
	if err != nil {
		return NodeCredentials{}, fmt.Errorf("reading the node's certificate: %w", err)
	}
	pool, err := set.CAPool()
	if err != nil {
		return NodeCredentials{}, err
	}
	return NodeCredentials{Certificate: certificate, ClientCAs: pool, ClientName: pki.KubeletClientName}, nil
}

// errNotShared is the error for what only a shared control plane has.
var errNotShared = errors.New("this control plane has one user: only a shared one has a front proxy and certificates of users")

// restConfig is an identity's way to the API server.
func restConfig(set *pki.Set, name, server string) (*rest.Config, error) {
	var data [3][]byte
	for i, path := range []string{set.CAFile(), set.CertFile(name), set.KeyFile(name)} {
		var err error
		if data[i], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading the certificates: %w", err)
		}
	}
	return &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAData: data[0], CertData: data[1], KeyData: data[2]},
		// The server is on this machine: what bounds a burst is the number of
		// requests in flight, not a clock.
		QPS:       -1,
		UserAgent: "muster",
	}, nil
}

// writeKubeconfig writes a kubeconfig with one context, "muster".
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "muster"
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return pki.WriteFile(path, data)
}

// writeFiles writes what the child and kubectl read.
func writeFiles(o Options, order contract.Order, set *pki.Set, admin *rest.Config) error {
	controllers, err := restConfig(set, pki.Controllers, admin.Host)
	if err != nil {
		return err
	}
	who := authentication
	if order.Shared {
		who = sharedAuthentication
		policy, err := json.Marshal(auditPolicy(o.Shared.administrators()))
		if err != nil {
			return fmt.Errorf("encoding the audit policy: %w", err)
		}
		if err := pki.WriteFile(order.AuditPolicy, policy); err != nil {
			return err
		}
	}
	return errors.Join(
		writeKubeconfig(o.kubeconfig(), admin),
		writeKubeconfig(order.Kubeconfig, controllers),
		pki.WriteFile(order.AuthenticationConfig, []byte(who)),
	)
}
