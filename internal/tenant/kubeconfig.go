package tenant

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kubeconfig asks for a token for the tenant's service account that lives for
// as long as life, or as the server allows, and returns a kubeconfig with it
// and when it ends. How the server is known is taken from config, and its
// address, too, if address is empty.
func Kubeconfig(ctx context.Context, server client.Client, config *rest.Config, t Tenant, address string, life time.Duration) ([]byte, time.Time, error) {
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: t.named(t.Name)}
	if err := server.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, time.Time{}, fmt.Errorf("asking for a token for %s: %w", t.Name, err)
	}
	// Only how the server is known is taken: not who asks.
	public := rest.AnonymousClientConfig(config)
	if err := rest.LoadTLSFiles(public); err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the server's certificate authority: %w", err)
	}
	if address == "" {
		address = config.Host
	}
	out := clientcmdapi.NewConfig()
	out.Clusters["muster"] = &clientcmdapi.Cluster{
		Server: address, CertificateAuthorityData: public.CAData,
		TLSServerName: public.ServerName, InsecureSkipTLSVerify: public.Insecure,
	}
	out.AuthInfos[t.Name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	out.Contexts["muster"] = &clientcmdapi.Context{Cluster: "muster", AuthInfo: t.Name, Namespace: t.Name}
	out.CurrentContext = "muster"
	data, err := clientcmd.Write(*out)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return data, request.Status.ExpirationTimestamp.Time, nil
}
