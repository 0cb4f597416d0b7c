package connection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
	"github.com/muster-dev/muster/internal/tenant"
)

// EnvSocket names the socket of the Muster of the machine.
const EnvSocket = "MUSTER_SOCKET"

// boxHost is the address of requests by the socket. No name is looked up: the socket is
// the way.
const boxHost = "http://muster"

// SocketPath returns the path of the socket of the Muster of the machine.
func (f *Factory) SocketPath() string { return cmp.Or(f.Getenv(EnvSocket), userapi.DefaultPath) }

// box returns the source of the Muster of the machine, if there is a socket.
func (f *Factory) box() (source, bool, error) {
	path := f.SocketPath()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return source{}, false, nil
	} else if err != nil {
		return source{}, false, fmt.Errorf("looking for the socket of the Muster of this machine: %w", err)
	}
	return source{kind: Box, socket: path}, true, nil
}

// runs reports whether the Muster of a data folder runs.
func runs(home string) bool {
	_, alive, err := instance.Home(home).Read()
	return err == nil && alive
}

// boxConfig is how clients see the Muster of the machine, without the way there.
func boxConfig() *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["machine"] = &clientcmdapi.Cluster{Server: boxHost}
	config.AuthInfos["machine"] = &clientcmdapi.AuthInfo{}
	config.Contexts["machine"] = &clientcmdapi.Context{Cluster: "machine", AuthInfo: "machine", Namespace: boxNamespace()}
	config.CurrentContext = "machine"
	return config
}

// boxNamespace is the namespace of this user at the Muster of the machine.
func boxNamespace() string { return tenant.OfMachine(uint32(max(os.Geteuid(), 0)), "").Name }

// boxLoader is [boxConfig] with the namespace that the user named.
func (f *Factory) boxLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{}
	overrides.Context.Namespace = f.namespace
	return clientcmd.NewDefaultClientConfig(*boxConfig(), overrides)
}

// bySocket leads requests to a socket.
func bySocket(config *rest.Config, path string) {
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, path) }
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return gated{next} })
}

// refusal is the error of a user who is not let in at the socket.
type refusal struct{ words string }

// Error implements error.
func (r *refusal) Error() string { return r.words }

// refusalBytes bounds the message of a refusal.
const refusalBytes = 64 << 10

// gated makes an error of the answer to a user who is not let in: not every client reads the
// message.
type gated struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := g.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusForbidden || answer.Header.Get(peer.RefusalHeader) == "" {
		return answer, err
	}
	defer func() { _ = answer.Body.Close() }()
	var status struct{ Message string }
	text, err := io.ReadAll(io.LimitReader(answer.Body, refusalBytes))
	if err != nil {
		return nil, err
	}
	_ = json.Unmarshal(text, &status) // the code says enough
	return nil, &refusal{"the Muster of this machine refuses you: " + cmp.Or(status.Message, answer.Status)}
}

// ServerID is a text that no other server has, for files about it. A home may be shared by
// several machines, so the Muster of a machine is named by the machine.
func (f *Factory) ServerID() (string, error) {
	config, err := f.RESTConfig()
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.source.kind != Box {
		return config.Host + config.APIPath, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding the name of this machine: %w", err)
	}
	id, _ := os.ReadFile("/etc/machine-id") // the name does where there is none
	return "socket\x00" + name + "\x00" + strings.TrimSpace(string(id)) + "\x00" + f.source.socket, nil
}

// ExplainSocket is [Factory.Explain] for a request by the socket of the machine that was made without
// the clients of this factory.
func (f *Factory) ExplainSocket(err error) error {
	if said := explainBox(err, f.SocketPath()); said != nil {
		return said
	}
	return err
}

// explainBox is [Factory.Explain] for the Muster of the machine: its socket is of another
// user, nobody listens there, or Muster stopped before it answered.
func explainBox(err error, path string) error {
	if foreign := find[*peer.ForeignError](err); foreign != nil {
		return fmt.Errorf("%w; an administrator of the machine removes it, or choose a Muster by --home or --kubeconfig", *foreign)
	}
	if said := find[*refusal](err); said != nil {
		return *said
	}
	dial := unanswered(err)
	switch {
	case errors.Is(err, fs.ErrPermission) && (dial != nil || find[*fs.PathError](err) != nil):
		return fmt.Errorf("you may not connect to the Muster of this machine at %s: its folder needs mode 0755 and the socket 0666, which an administrator restores by restarting it", path)
	case dial != nil, find[*fs.PathError](err) != nil && errors.Is(err, fs.ErrNotExist):
		return exit.NotFound("the Muster of this machine is not running (nobody listens at %s): an administrator starts it with `sudo muster up --system`; or %s", path, startOne)
	case find[*url.Error](err) != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return exit.NotFound("the Muster of this machine stopped before it answered (at %s): try again once it runs", path)
	}
	return nil
}
