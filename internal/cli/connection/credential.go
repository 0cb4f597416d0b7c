package connection

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
)

const (
	// credentialPatience is the time limit for a credential.
	credentialPatience = 30 * time.Second
	// credentialBytes bounds the answer.
	credentialBytes = 1 << 20
)

// Credential is a client certificate for the port of the machine's API server.
type Credential struct {
	userapi.Credential
	// Key is the private key, PEM. It was made here, and is nowhere else.
	Key []byte
}

// Credential makes a key, and has the Muster of the machine sign a certificate of this user
// for it. It asks at the socket, whatever Muster the other commands talk to.
func (f *Factory) Credential(ctx context.Context) (Credential, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Credential{}, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return Credential{}, fmt.Errorf("making a certificate request: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Credential{}, fmt.Errorf("encoding the key: %w", err)
	}
	body, err := json.Marshal(userapi.CredentialRequest{Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})})
	if err != nil {
		return Credential{}, fmt.Errorf("writing the request for a credential: %w", err)
	}
	made := Credential{Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
	return made, f.askSocket(ctx, http.MethodPost, body, &made.Credential)
}

// askSocket asks the Muster of the machine about credentials.
func (f *Factory) askSocket(ctx context.Context, method string, body []byte, into any) (err error) {
	path := f.SocketPath()
	defer func() {
		if said := explainBox(err, path); said != nil {
			err = said
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, credentialPatience)
	defer cancel()
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, path) },
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, method, boxHost+userapi.CredentialPath, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking for a credential: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "muster/"+f.Version)
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking for a credential: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, credentialBytes))
	if err != nil {
		return fmt.Errorf("asking for a credential: %w", err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		var status struct{ Message string }
		_ = json.Unmarshal(text, &status) // the code says enough
		return errors.New("asking for a credential: " + cmp.Or(status.Message, answer.Status))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the credential: %w", err)
	}
	return nil
}

// Remote returns what streams of exec use. They have a dialer of their own, so the Muster of
// the machine is reached by the port of its API server, with a credential; others are
// reached as by [Factory.RESTConfig].
func (f *Factory) Remote(ctx context.Context) (*rest.Config, *kubernetes.Clientset, error) {
	config, err := f.RESTConfig()
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	kind := f.source.kind
	f.mu.Unlock()
	if kind != Box {
		set, err := f.Clientset()
		return config, set, err
	}
	made, err := f.Credential(ctx)
	if err != nil {
		return nil, nil, err
	}
	config = &rest.Config{
		Host: made.Server, QPS: -1, UserAgent: config.UserAgent, WarningHandler: config.WarningHandler,
		TLSClientConfig: rest.TLSClientConfig{CAData: made.Authority, CertData: made.Certificate, KeyData: made.Key},
		// The port is of this machine.
		Proxy: config.Proxy,
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	return config, set, nil
}

// BoxKubeconfig returns a kubeconfig for the Muster of the machine, without a secret:
// program, which is muster, makes a credential whenever one is needed.
func (f *Factory) BoxKubeconfig(ctx context.Context, program string) (*clientcmdapi.Config, error) {
	var cluster userapi.Cluster
	if err := f.askSocket(ctx, http.MethodGet, nil, &cluster); err != nil {
		return nil, err
	}
	config := boxConfig()
	config.Clusters["machine"] = &clientcmdapi.Cluster{Server: cluster.Server, CertificateAuthorityData: cluster.Authority}
	config.AuthInfos["machine"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: program, Args: []string{"credential"},
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		InstallHint:     "muster makes the credentials for the Muster of this machine: name it by its path",
	}}
	if path := f.Getenv(EnvSocket); path != "" {
		config.AuthInfos["machine"].Exec.Env = []clientcmdapi.ExecEnvVar{{Name: EnvSocket, Value: path}}
	}
	if f.namespace != "" {
		config.Contexts["machine"].Namespace = f.namespace
	}
	return config, nil
}
