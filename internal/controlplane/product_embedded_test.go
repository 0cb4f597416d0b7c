//go:build embedded

package controlplane_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-dev/muster/internal/controlplane"
)

// TestControlPlane shares one control plane between everything that only needs
// a working one.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("a-deep-folder/", 9)) // Beyond a socket's 108 bytes.
	begin := time.Now()
	c, err := attempt(t, controlplane.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("first start: %s", time.Since(begin))
	api := client(t, c)

	// First, for what it looks at is over after two seconds.
	t.Run("the first job is taken at once", func(t *testing.T) { checkFirstCreation(t, c) })
	t.Run("custom kinds are found at once", func(t *testing.T) { checkKinds(t, c) })
	t.Run("built-in objects", func(t *testing.T) { checkBuiltin(t, api) })
	t.Run("files are the owner's", func(t *testing.T) { checkModes(t, dir) })
	t.Run("kubeconfig", func(t *testing.T) { checkKubeconfig(t, c) })
	t.Run("strangers", func(t *testing.T) { checkStrangers(t, c) })
	t.Run("upstream controllers", func(t *testing.T) { checkControllers(t, api) })
	t.Run("logs through the kubelet API", func(t *testing.T) { checkKubelet(t, c, api) })
	t.Run("pods that have ended", func(t *testing.T) { checkEndedPods(t, c) })

	mustCreate(t, api, configMap("kept", 10))
	stop(t, c)
	if err := c.Err(); err != nil {
		t.Errorf("Err() = %v after an orderly stop", err)
	}
	begin = time.Now()
	c = start(t, controlplane.Options{DataDir: dir})
	t.Logf("second start: %s", time.Since(begin))
	checkKinds(t, c)
	mustHave(t, client(t, c), "kept")
}

// checkFirstCreation: the API server would make the first objects of a new kind
// wait for two seconds.
func checkFirstCreation(t *testing.T, c *controlplane.ControlPlane) {
	t.Helper()
	api, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob",
		"metadata": map[string]any{"name": "first"},
		"spec":     map[string]any{"roles": []any{map[string]any{"name": "worker", "command": []any{"true"}}}},
	}}
	jobs := api.Resource(schema.GroupVersionResource{Group: "muster.dev", Version: "v1alpha1", Resource: "trainingjobs"}).Namespace("default")
	begin := time.Now()
	if _, err := jobs.Create(within(t), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("the first TrainingJob was taken in %s", took)
	if took > time.Second { // 10 ms, but the machine may be busy.
		t.Errorf("the first TrainingJob was taken after %s, which is upstream's wait for other API servers", took)
	}
}

// checkKinds asks as clients do that have just been started: each kind of the charts is
// found, in the aggregated document and in that of its group.
func checkKinds(t *testing.T, c *controlplane.ControlPlane) {
	t.Helper()
	finder, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]discovery.DiscoveryInterface{"aggregated": finder, "by group": finder.WithLegacy()} {
		found, err := restmapper.GetAPIGroupResources(client)
		if err != nil {
			t.Fatal(err)
		}
		mapper := restmapper.NewDiscoveryRESTMapper(found)
		for _, kind := range []string{"TrainingJob", "Gang", "Placement", "Queue", "Dataset", "Pipeline", "PipelineRun"} {
			if _, err := mapper.RESTMapping(schema.GroupKind{Group: "muster.dev", Kind: kind}, "v1alpha1"); err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
		for _, kind := range []string{"TFJob", "PyTorchJob"} {
			if _, err := mapper.RESTMapping(schema.GroupKind{Group: "kubeflow.org", Kind: kind}, "v1"); err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
	}
}

func checkBuiltin(t *testing.T, api *kubernetes.Clientset) {
	ctx := within(t)
	class, err := api.StorageV1().StorageClasses().Get(ctx, "muster-local", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
		t.Error("muster-local is not the default StorageClass")
	}
	if _, err := api.CoreV1().Namespaces().Get(ctx, "muster-system", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := api.CoreV1().Pods("default").Create(ctx, pod("early", ""), metav1.CreateOptions{}); err != nil {
		t.Errorf("a pod was refused right after the start: %v", err)
	}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "muster.dev/host"}}},
	}
}

func checkModes(t *testing.T, dir string) {
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			// What is in a closed folder is closed; keys are closed twice.
			if info.IsDir() || !strings.Contains(path, "/etcd/") && info.Mode()&os.ModeSocket == 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkKubeconfig(t *testing.T, c *controlplane.ControlPlane) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Nodes().List(within(t), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func checkStrangers(t *testing.T, c *controlplane.ControlPlane) {
	config := rest.AnonymousClientConfig(c.RESTConfig())
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, error) {
		response, err := web.Get(config.Host + path)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	for _, path := range []string{"/api/v1/pods", "/version", "/readyz/ping"} {
		if got, err := get(path); err != nil || got != http.StatusUnauthorized {
			t.Errorf("GET %s without a certificate: %d, %v, want %d", path, got, err, http.StatusUnauthorized)
		}
	}
	// The role that lets everyone ask is made soon after the first start.
	eventually(t, func(context.Context) error {
		got, err := get("/readyz")
		if err == nil && got != http.StatusOK {
			err = fmt.Errorf("GET /readyz without a certificate: %d, want %d", got, http.StatusOK)
		}
		return err
	})
}

// checkControllers: a Deployment's pod comes through three controllers, and
// its deletion through the garbage collector.
func checkControllers(t *testing.T, api *kubernetes.Clientset) {
	ctx := within(t)
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("", "").Spec},
		},
	}
	if _, err := api.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	count := func(want int) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			pods, err := api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
			if err == nil && len(pods.Items) != want {
				err = fmt.Errorf("the Deployment has %d pods, want %d", len(pods.Items), want)
			}
			return err
		})
	}
	count(1)
	if err := api.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	count(0)
	eventually(t, func(ctx context.Context) error {
		_, err := api.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// checkEndedPods: past 1,000 of them the oldest are deleted.
func checkEndedPods(t *testing.T, c *controlplane.ControlPlane) {
	const kept, made, writers = 1000, 1020, 8
	config := c.RESTConfig()
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	if _, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ended"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { // pods need it
		_, err := api.CoreV1().ServiceAccounts("ended").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range made {
		group.Go(func() error {
			p := pod("", "")
			p.Name, p.Namespace = fmt.Sprintf("p%d", i), "ended"
			p, err := api.CoreV1().Pods("ended").Create(ctx, p, metav1.CreateOptions{})
			if err == nil {
				p.Status.Phase = corev1.PodFailed
				_, err = api.CoreV1().Pods("ended").UpdateStatus(ctx, p, metav1.UpdateOptions{})
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		pods, err := api.CoreV1().Pods("ended").List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > kept {
			err = fmt.Errorf("%d pods that have ended are left, want at most %d", len(pods.Items), kept)
		}
		return err
	})
}

// checkKubelet: the API server reaches a kubelet API on 127.0.0.1, and nobody
// else does.
func checkKubelet(t *testing.T, c *controlplane.ControlPlane, api *kubernetes.Clientset) {
	ctx := within(t)
	plain, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "from ", r.URL.Path)
	})}
	go func() { _ = server.Serve(tls.NewListener(plain, c.NodeCredentials().TLSConfig())) }()
	defer func() { _ = server.Close() }()

	port := plain.Addr().(*net.TCPAddr).Port
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	made, err := api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, taint := range made.Spec.Taints {
		t.Errorf("a new node is tainted: %v", taint)
	}
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"Hostname","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, port)
	if _, err := api.CoreV1().Nodes().Patch(ctx, "here", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Pods("default").Create(ctx, pod("talker", "here"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	logs, err := api.CoreV1().Pods("default").GetLogs("talker", &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || string(logs) != "from /containerLogs/default/talker/main" {
		t.Errorf("logs = %q, %v", logs, err)
	}

	web, err := rest.HTTPClientFor(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if response, err := web.Get("https://" + plain.Addr().String()); err == nil {
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		t.Errorf("the kubelet API answered the administrator: %s", body)
	}
	if err := api.CoreV1().Nodes().Delete(ctx, "here", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
