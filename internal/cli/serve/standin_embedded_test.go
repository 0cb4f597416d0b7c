//go:build embedded

package serve_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// standIn makes a pod of the manager as a kubelet would show it, and returns the
// address at which its door has to be: one of this machine that is not its
// loopback, which an API server proxies to nowhere.
func standIn(t *testing.T, server client.Client) string {
	t.Helper()
	ip := addressOfThisMachine(t)
	probe, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	// Endpoints are those of pods on nodes that there are.
	if err := server.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.SystemNamespace, Name: "muster-manager-0",
			Labels: map[string]string{"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "manager"},
		},
		Spec: corev1.PodSpec{NodeName: "elsewhere", Containers: []corev1.Container{{
			Name: "manager", Image: "muster", Ports: []corev1.ContainerPort{{Name: "door", ContainerPort: int32(number)}, {Name: "metrics", ContainerPort: 8080}},
		}}},
	}
	if err := server.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	from := pod.DeepCopy()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := server.Status().Patch(t.Context(), pod, client.MergeFrom(from)); err != nil {
		t.Fatal(err)
	}
	return address
}

func addressOfThisMachine(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no address but its loopback, and an API server proxies nothing there")
	return ""
}

// serve runs the command as the manager's service account, until the test ends.
func serve(t *testing.T, server *rehearsal.Server, more ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := &said{wait: map[string]chan struct{}{"muster: scheduling\n": make(chan struct{})}}
	scheduling := out.wait["muster: scheduling\n"]
	done := make(chan exit.Code, 1)
	args := append([]string{"serve", "-v", "--kubeconfig", asManager(t, server), "--metrics", "0", "--health", "0"}, more...)
	go func() {
		done <- cli.Execute(ctx, args, terminal.Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: out, NoColor: true})
	}()
	t.Cleanup(func() {
		cancel()
		code := <-done
		if text := out.text.String(); code != exit.OK || bytes.Contains(out.text.Bytes(), []byte("forbidden")) {
			t.Errorf("it ended with %d: %s", code, text)
		}
	})
	select {
	case <-scheduling:
	case code := <-done:
		done <- code
		t.Fatalf("it ended: %s", out.text.String())
	case <-time.After(time.Minute):
		t.Fatal("it does not schedule")
	}
}

// asManager is a kubeconfig with a token of the manager's service account.
func asManager(t *testing.T, server *rehearsal.Server) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "muster-manager"}}
	token := &authenticationv1.TokenRequest{}
	if err := server.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	public := rest.AnonymousClientConfig(server.Config)
	if err := rest.LoadTLSFiles(public); err != nil {
		t.Fatal(err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: public.Host, CertificateAuthorityData: public.CAData, TLSServerName: public.ServerName}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "manager.kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// knock asks at the door with a token, through the API server, and returns the
// status.
func knock(t *testing.T, s *rehearsal.Server, namespace, token string) int {
	t.Helper()
	return asks(t, s, "/v1/namespaces/"+namespace+"/top", token)
}
