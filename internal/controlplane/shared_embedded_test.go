//go:build embedded

package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiclient "sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/controlplane/pki"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/tenant"
)

// The users of the shared machine: ada is in the group lab, cy in the group of
// administrators.
const (
	ada = 1000
	bea = 1001
	cy  = 1002
)

// box is a shared control plane with the socket of its users.
type box struct {
	*testing.T
	plane  *controlplane.ControlPlane
	dir    string
	path   string
	users  *account.Directory
	keeper *tenant.Keeper
	// asked counts the keeper's requests.
	asked atomic.Int64
}

func sharing() *controlplane.Sharing {
	return &controlplane.Sharing{Version: "v1.2.3", Administrators: []string{"ops"}}
}

// share starts a shared control plane, with a front proxy behind a socket.
func share(t *testing.T) *box {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root connects to the socket as other users")
	}
	ctrllog.SetLogger(logr.Discard())
	b := &box{T: t, dir: t.TempDir()}
	b.plane = start(t, controlplane.Options{DataDir: b.dir, Shared: sharing()})
	b.users = usersOf(t)
	config := b.plane.RESTConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &b.asked} })
	server, err := apiclient.New(config, apiclient.Options{Scheme: kinds(t)})
	if err != nil {
		t.Fatal(err)
	}
	b.keeper, err = tenant.NewKeeper(tenant.KeeperOptions{
		Server: server, Directory: b.users, Queues: []tenant.GroupQueue{{Group: "lab", Queue: "vision"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.listen()
	return b
}

func kinds(t *testing.T) *k8sruntime.Scheme {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{clientscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// counting counts requests.
type counting struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(r)
}

func usersOf(t *testing.T) *account.Directory {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"passwd": "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbea:x:1001:1001::/home/bea:/bin/sh\ncy:x:1002:1002::/home/cy:/bin/sh\ndan:x:1003:1003::/home/dan:/bin/sh\n",
		"group":  "root:x:0:\nada:x:1000:\nbea:x:1001:\ncy:x:1002:\nlab:x:2000:ada\nops:x:3000:cy\nmasters:x:4000:bea\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	users := account.New(account.Options{Folder: folder, FilesOnly: true})
	t.Cleanup(users.Close)
	return users
}

// listen serves the users of the machine.
func (b *box) listen() {
	b.Helper()
	server, config, err := b.plane.FrontProxy()
	if err != nil {
		b.Fatal(err)
	}
	proxy, err := frontproxy.New(frontproxy.Options{Server: server, TLS: config, Directory: b.users})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(proxy.Close)
	folder, err := os.MkdirTemp("", "muster-box-") // other users reach it
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // the users of the test connect to it
		b.Fatal(err)
	}
	b.path = filepath.Join(folder, "s")
	listener, err := peer.Listen(b.Context(), b.path)
	if err != nil {
		b.Fatal(err)
	}
	prepared := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := peer.FromContext(r.Context())
		if err == nil {
			err = b.keeper.Ensure(r.Context(), caller.UID, append(caller.Groups, caller.GID))
		}
		if err != nil {
			peer.Refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		proxy.ServeHTTP(w, r)
	})
	s := &http.Server{Handler: peer.Gate{Accounts: b.users, Next: prepared}, ConnContext: peer.Context, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(listener)
	}()
	b.Cleanup(func() {
		_ = s.Close()
		<-done
	})
}

// as returns the clients of a user, by the socket.
func (b *box) as(uid int, headers http.Header) *kubernetes.Clientset {
	b.Helper()
	config := &rest.Config{Host: "http://muster", QPS: -1, Dial: func(context.Context, string, string) (net.Conn, error) { return dialAs(b.path, uid) }}
	if headers != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return adding{next, headers} })
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

// adding adds headers.
type adding struct {
	next    http.RoundTripper
	headers http.Header
}

func (a adding) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range a.headers {
		r.Header[name] = values
	}
	return a.next.RoundTrip(r)
}

// dialAs connects as a user: the kernel notes the user of the thread.
func dialAs(path string, uid int) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer func() { _ = file.Close() }()
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
		return nil, errno
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0)); errno != 0 {
		return nil, errno
	}
	if err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// try sends a request; body is YAML.
func try(ctx context.Context, set *kubernetes.Clientset, method, target, body string) ([]byte, error) {
	at, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	request := set.CoreV1().RESTClient().Verb(method).AbsPath(at.Path)
	for name, values := range at.Query() {
		request.Param(name, values[0])
	}
	if body != "" {
		text, err := yaml.YAMLToJSON([]byte(body))
		if err != nil {
			return nil, err
		}
		kind := "application/json"
		if method == http.MethodPatch {
			kind = "application/merge-patch+json"
		}
		request.Body(text).SetHeader("Content-Type", kind)
	}
	return request.DoRaw(ctx)
}

const (
	podsOfAda = "/api/v1/namespaces/u-1000/pods"
	jobsOfAda = "/apis/muster.dev/v1alpha1/namespaces/u-1000/trainingjobs"
	dry       = "?dryRun=All"
)

// podOf is a pod with a part of a spec, in the flow style of YAML.
func podOf(spec string) string {
	if spec != "" {
		spec = ", " + spec
	}
	return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]" + spec + "}}"
}

// containerOf is a pod whose container has a part of a spec.
func containerOf(part string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, " + part + "}]}}"
}

// jobOf is a job whose members have a part of a spec.
func jobOf(spec string) string {
	return "{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: j}, spec: {roles: [{name: worker, command: ['true'], template: {spec: {" + spec + "}}}]}}"
}

// TestUsersOfAMachine walks through what users try, by the socket and the front proxy.
// "edit" in the namespace lets ada make pods, which users may not by themselves.
func TestUsersOfAMachine(t *testing.T) {
	t.Parallel()
	b := share(t)
	admin := client(t, b.plane)
	for _, uid := range []int{0, ada, bea, cy} {
		if _, err := b.as(uid, nil).Discovery().ServerVersion(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.RbacV1().RoleBindings("u-1000").Create(within(t), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "unix:1000"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := try(ctx, b.as(ada, nil), http.MethodPost, podsOfAda+dry, podOf(""))
		return err
	})
	users := map[int]*kubernetes.Clientset{0: b.as(0, nil), ada: b.as(ada, nil), bea: b.as(bea, nil), cy: b.as(cy, nil)}
	const post, get, patch = http.MethodPost, http.MethodGet, http.MethodPatch
	for _, c := range []struct {
		name           string
		uid            int
		method, target string
		body           string
		want           string // of the error; empty: allowed
	}{
		{"a job", ada, post, jobsOfAda + dry, jobOf(""), ""},
		{"a job as oneself", ada, post, jobsOfAda + dry, jobOf("securityContext: {runAsUser: 1000, runAsGroup: 2000, fsGroup: 1000, supplementalGroups: [2000]}"), ""},
		{"a job as another user", ada, post, jobsOfAda + dry, jobOf("securityContext: {runAsUser: 1001}"), "run as uid 1000: leave runAsUser out"},
		{"a job as root", ada, post, jobsOfAda + dry, jobOf("containers: [{name: worker, securityContext: {runAsUser: 0}}]"), "runAsUser"},
		{"a job with another's group", ada, post, jobsOfAda + dry, jobOf("securityContext: {runAsGroup: 3000}"), "have the groups of uid 1000"},
		{"a job with root's group for volumes", ada, post, jobsOfAda + dry, jobOf("securityContext: {fsGroup: 0}"), "have the groups of uid 1000"},
		{"a job with more groups", ada, post, jobsOfAda + dry, jobOf("securityContext: {supplementalGroups: [2000, 27]}"), "have the groups of uid 1000"},
		{"a privileged job", ada, post, jobsOfAda + dry, jobOf("containers: [{name: worker, securityContext: {privileged: true}}]"), "privileged containers"},
		{"a job with a capability", ada, post, jobsOfAda + dry, jobOf("containers: [{name: worker, securityContext: {capabilities: {add: [CHOWN]}}}]"), "capabilities beyond"},
		{"a job in the machine's network", ada, post, jobsOfAda + dry, jobOf("hostNetwork: true"), "hostNetwork"},
		{"a job that sees processes", ada, post, jobsOfAda + dry, jobOf("hostPID: true"), "hostPID"},
		{"a job that sees memory", ada, post, jobsOfAda + dry, jobOf("hostIPC: true"), "hostIPC"},
		{"a job with a folder", ada, post, jobsOfAda + dry, jobOf("volumes: [{name: v, hostPath: {path: /home/ada/data}}]"), ""},
		{"a job with devices", ada, post, jobsOfAda + dry, jobOf("volumes: [{name: v, hostPath: {path: /dev/nvidia0}}]"), "a hostPath is not allowed at /"},
		{"a job with all folders", ada, post, jobsOfAda + dry, jobOf("volumes: [{name: v, hostPath: {path: /}}]"), "a hostPath is not allowed at /"},
		{"a job with Muster's folder", ada, post, jobsOfAda + dry, jobOf("volumes: [{name: v, hostPath: {path: " + b.dir + "/etcd}}]"), "a hostPath is not allowed at /"},
		{"a job with a folder in disguise", ada, post, jobsOfAda + dry, jobOf("volumes: [{name: v, hostPath: {path: //proc}}]"), "a hostPath is not allowed at /"},
		{"a job with a share of the network", ada, post, jobsOfAda + dry, jobOf("volumes: [{name: v, nfs: {server: s, path: /}}]"), "shares of the network"},
		{"a job with a port of the machine", ada, post, jobsOfAda + dry, jobOf("containers: [{name: worker, ports: [{containerPort: 1, hostPort: 22}]}]"), "hostPort"},
		{"a job on a node", ada, post, jobsOfAda + dry, jobOf("nodeName: box"), "leave nodeName out"},
		{"a job before all others", ada, post, jobsOfAda + dry, jobOf("priorityClassName: system-node-critical"), "system-"},
		{"a job with the token of an account", bea, post, "/apis/muster.dev/v1alpha1/namespaces/u-1001/trainingjobs" + dry, jobOf("serviceAccountName: other"), "may not run members as service account other"},
		{"a job with a claim of devices", bea, post, "/apis/muster.dev/v1alpha1/namespaces/u-1001/trainingjobs" + dry, jobOf("resourceClaims: [{name: r}]"), "may not use device claims"},
		{"a job with a GPU's annotation", ada, post, jobsOfAda + dry, "{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: j}, spec: {roles: [{name: worker, command: ['true'], template: {metadata: {annotations: {muster.dev/gpus: '0'}}}}]}}", "choose a key outside of muster.dev"},
		{"a job in the name of another, which is stamped", ada, post, jobsOfAda + dry, "{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: j, annotations: {muster.dev/submitter: 'unix:1001'}}, spec: {roles: [{name: worker, command: ['true']}]}}", ""},
		{"a job in another's queue", ada, post, jobsOfAda + dry, "{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: j}, spec: {queue: u-1001, roles: [{name: worker, command: ['true']}]}}", "may not use queue u-1001"},
		{"a job of another's", bea, post, jobsOfAda + dry, jobOf(""), `cannot create resource "trainingjobs"`},
		{"a job of an administrator as another user", cy, post, jobsOfAda + dry, jobOf(""), "run as uid 1000, and you are unix:1002"},
		{"a job of an administrator as root", cy, post, "/apis/muster.dev/v1alpha1/namespaces/u-0/trainingjobs" + dry, jobOf(""), "run as uid 0, and you are unix:1002"},
		{"a job of root's", 0, post, "/apis/muster.dev/v1alpha1/namespaces/u-0/trainingjobs" + dry, jobOf(""), ""},
		{"a job of the system's", 0, post, "/apis/muster.dev/v1alpha1/namespaces/kube-system/trainingjobs" + dry, jobOf(""), "is the namespace of no user"},
		{"a job of nobody's", 0, post, "/apis/muster.dev/v1alpha1/namespaces/default/trainingjobs" + dry, jobOf(""), "is the namespace of no user"},

		{"a pod", ada, post, podsOfAda + dry, podOf(""), ""},
		{"a pod without the right", bea, post, "/api/v1/namespaces/u-1001/pods" + dry, podOf(""), `cannot create resource "pods"`},
		{"a pod as oneself", ada, post, podsOfAda + dry, podOf("securityContext: {runAsUser: 1000, runAsGroup: 1000}"), ""},
		{"a pod as another user", ada, post, podsOfAda + dry, podOf("securityContext: {runAsUser: 1001}"), "run as uid 1000"},
		{"a container as another user", ada, post, podsOfAda + dry, containerOf("securityContext: {runAsUser: 1001}"), "run as uid 1000"},
		{"a container with another's group", ada, post, podsOfAda + dry, containerOf("securityContext: {runAsGroup: 1001}"), "have the groups of uid 1000"},
		{"a pod with more groups", ada, post, podsOfAda + dry, podOf("securityContext: {supplementalGroups: [0]}"), "have the groups of uid 1000"},
		{"a privileged container", ada, post, podsOfAda + dry, containerOf("securityContext: {privileged: true}"), "privileged containers"},
		{"a container with a capability", ada, post, podsOfAda + dry, containerOf("securityContext: {capabilities: {add: [SYS_ADMIN]}}"), "capabilities beyond"},
		{"a pod in the machine's network", ada, post, podsOfAda + dry, podOf("hostNetwork: true"), "hostNetwork"},
		{"a pod with a folder", ada, post, podsOfAda + dry, podOf("volumes: [{name: v, hostPath: {path: /home/ada}}]"), ""},
		{"a pod with processes", ada, post, podsOfAda + dry, podOf("volumes: [{name: v, hostPath: {path: /proc/1}}]"), "a hostPath is not allowed at /"},
		{"a pod on a node", ada, post, podsOfAda + dry, podOf("nodeName: box"), "leave nodeName out"},
		{"a pod with a GPU's annotation", ada, post, podsOfAda + dry, "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {muster.dev/gpus: '0'}}, spec: {containers: [{name: c, image: i}]}}", "written by Muster alone"},
		{"a pod before all others", ada, post, podsOfAda + dry, podOf("priorityClassName: system-node-critical"), "system-"},
		{"a pod of nobody's", 0, post, "/api/v1/namespaces/default/pods" + dry, podOf(""), "is the namespace of no user"},
		{"a pod of root's as another", 0, post, podsOfAda + dry, podOf("securityContext: {runAsUser: 1001}"), "run as uid 1000"},

		{"nodes", ada, get, "/api/v1/nodes", "", `cannot list resource "nodes"`},
		{"nodes of an administrator", cy, get, "/api/v1/nodes", "", ""},
		{"namespaces", ada, get, "/api/v1/namespaces", "", `cannot list resource "namespaces"`},
		{"another's namespace", ada, get, "/api/v1/namespaces/u-1001", "", `cannot get resource "namespaces"`},
		{"another's pods", ada, get, "/api/v1/namespaces/u-1001/pods", "", `cannot list resource "pods"`},
		{"another's logs", ada, get, "/api/v1/namespaces/u-1001/pods/p/log", "", `cannot get resource "pods/log"`},
		{"another's jobs", ada, get, "/apis/muster.dev/v1alpha1/namespaces/u-1001/trainingjobs", "", `cannot list resource "trainingjobs"`},
		{"another's secrets", ada, get, "/api/v1/namespaces/u-1001/secrets", "", `cannot list resource "secrets"`},
		{"all secrets", ada, get, "/api/v1/secrets", "", `cannot list resource "secrets"`},
		{"secrets of an administrator", cy, get, "/api/v1/namespaces/u-1000/secrets", "", `cannot list resource "secrets"`},
		{"own secrets", bea, get, "/api/v1/namespaces/u-1001/secrets", "", ""},
		{"a token of another's", ada, post, "/api/v1/namespaces/u-1001/serviceaccounts/default/token", "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {}}", `cannot create resource "serviceaccounts/token"`},
		{"a token of the system's", ada, post, "/api/v1/namespaces/kube-system/serviceaccounts/default/token", "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {}}", `cannot create resource "serviceaccounts/token"`},
		{"a token that never ends", bea, post, "/api/v1/namespaces/u-1001/secrets" + dry, "{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {kubernetes.io/service-account.name: default}}, type: kubernetes.io/service-account-token}", "may not make a token of service account default"},
		{"the label of another's namespace", bea, patch, "/api/v1/namespaces/u-1001" + dry, "{metadata: {labels: {muster.dev/pod-security: privileged}}}", `cannot patch resource "namespaces"`},
		{"a role", ada, post, "/apis/rbac.authorization.k8s.io/v1/namespaces/u-1000/rolebindings" + dry, "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}}", `cannot create resource "rolebindings"`},
		{"a place", ada, post, "/apis/muster.dev/v1alpha1/namespaces/u-1000/placements" + dry, "{apiVersion: muster.dev/v1alpha1, kind: Placement, metadata: {name: p}}", `cannot create resource "placements"`},
		{"another's queue", ada, patch, "/apis/muster.dev/v1alpha1/queues/u-1000" + dry, "{spec: {weight: 100}}", `cannot patch resource "queues"`},
		{"the policies", ada, get, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "", `cannot list resource "validatingadmissionpolicies"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, err := try(within(t), users[c.uid], c.method, c.target, c.body)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("unix:%d: %v: %s", c.uid, err, answer)
			case c.want != "" && (err == nil || !strings.Contains(string(answer)+err.Error(), strings.ReplaceAll(c.want, `"`, `\"`))):
				t.Errorf("unix:%d: %v: %s: want %q", c.uid, err, answer, c.want)
			case c.want != "" && !apierrors.IsForbidden(err):
				t.Errorf("unix:%d: %v is not of the kind Forbidden", c.uid, err)
			}
		})
	}
	t.Run("stamps", func(t *testing.T) { b.stamps(t) })
	t.Run("names", func(t *testing.T) { b.names(t) })
	t.Run("record", func(t *testing.T) { b.record(t) })
	t.Run("tenants", func(t *testing.T) { b.tenants(t) })
	t.Run("fairness", func(t *testing.T) { b.fairness(t) })
}

// stamps: a job has its submitter and its queue.
func (b *box) stamps(t *testing.T) {
	text, err := try(within(t), b.as(ada, nil), http.MethodPost, jobsOfAda+dry, jobOf(""))
	if err != nil {
		t.Fatal(err, string(text))
	}
	made := &v1alpha1.TrainingJob{}
	if err := json.Unmarshal(text, made); err != nil {
		t.Fatal(err)
	}
	if who := made.Annotations["muster.dev/submitter"]; who != "unix:1000" || made.Spec.Queue != "u-1000" {
		t.Errorf("the job is of %q in queue %q", who, made.Spec.Queue)
	}
}

// whoami asks the API server.
func whoami(t *testing.T, set *kubernetes.Clientset) (authenticationv1.UserInfo, error) {
	t.Helper()
	review, err := set.AuthenticationV1().SelfSubjectReviews().Create(within(t), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// names: a caller is who the kernel says, and no certificate but the proxy's names others.
func (b *box) names(t *testing.T) {
	claim := http.Header{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}}
	who, err := whoami(t, b.as(bea, claim))
	if err != nil || who.Username != "unix:1001" || !slices.Contains(who.Groups, "unix-group:masters") || slices.Contains(who.Groups, "system:masters") {
		t.Errorf("by the socket: %+v, %v", who, err)
	}
	if _, err := whoami(t, b.as(bea, http.Header{"Impersonate-User": {"unix:0"}})); !apierrors.IsForbidden(err) {
		t.Errorf("impersonation: %v", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := b.plane.Signer()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := signer.Sign(&key.PublicKey, "unix:1000", []string{"unix-group:lab"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	user := b.plane.RESTConfig()
	user.CertData, user.KeyData = certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	proxy := b.plane.RESTConfig()
	for file, to := range map[string]*[]byte{"front-proxy.crt": &proxy.CertData, "front-proxy.key": &proxy.KeyData} {
		if *to, err = os.ReadFile(filepath.Join(b.dir, "pki", file)); err != nil {
			t.Fatal(err)
		}
	}
	nobody := b.plane.RESTConfig()
	nobody.CertData, nobody.KeyData = nil, nil
	for _, c := range []struct {
		name    string
		config  *rest.Config
		headers http.Header
		want    string // empty: refused
	}{
		{"a certificate of a user", user, nil, "unix:1000"},
		{"a certificate of a user that names another", user, claim, "unix:1000"},
		{"the controllers", b.plane.ManagerConfig(), nil, pki.ManagerUser},
		{"the controllers that name another", b.plane.ManagerConfig(), claim, pki.ManagerUser},
		{"the node that names another", b.plane.NodeConfig(), claim, pki.NodeUser},
		{"the proxy for nobody", proxy, nil, ""},
		{"the proxy for a user", proxy, http.Header{"X-Remote-User": {"unix:7"}}, "unix:7"},
		{"nobody", nobody, nil, ""},
		{"nobody who names another", nobody, claim, ""},
	} {
		config := rest.CopyConfig(c.config)
		if c.headers != nil {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return adding{next, c.headers} })
		}
		set, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		who, err := whoami(t, set)
		if c.want == "" && !apierrors.IsUnauthorized(err) || c.want != "" && (err != nil || who.Username != c.want || slices.Contains(who.Groups, "system:masters")) {
			t.Errorf("%s: %+v, %v, want %q", c.name, who, err, c.want)
		}
	}
	anonymous, err := kubernetes.NewForConfig(nobody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := try(within(t), anonymous, http.MethodGet, "/livez", ""); !apierrors.IsUnauthorized(err) {
		t.Errorf("an anonymous request: %v", err)
	}
}

// record: acts of root and of administrators are recorded, without contents, and those of
// users are not.
func (b *box) record(t *testing.T) {
	const words = "these-are-the-contents"
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: recorded}, stringData: {word: " + words + "}}"
	for uid, at := range map[int]string{0: "/api/v1/namespaces/u-0/secrets", ada: "/api/v1/namespaces/u-1000/secrets"} {
		if text, err := try(within(t), b.as(uid, nil), http.MethodPost, at, secret); err != nil {
			t.Fatal(err, string(text))
		}
	}
	if text, err := try(within(t), b.as(cy, nil), http.MethodPatch, "/apis/muster.dev/v1alpha1/queues/u-1001", "{spec: {weight: 2}}"); err != nil {
		t.Fatal(err, string(text))
	}
	data, err := os.ReadFile(b.plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for line := range strings.Lines(string(data)) {
		event := struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Namespace, Name string }
		}{}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, fmt.Sprintf("%s %s %s/%s/%s", event.User.Username, event.Verb, event.ObjectRef.Resource, event.ObjectRef.Namespace, event.ObjectRef.Name))
	}
	for _, want := range []string{"unix:0 create secrets/u-0/recorded", "unix:1002 patch queues//u-1001", "muster-admin create namespaces//u-1000"} {
		if !slices.Contains(recorded, want) {
			t.Errorf("%q is not recorded: %d events", want, len(recorded))
		}
	}
	for _, line := range recorded {
		if strings.HasPrefix(line, "unix:1000 ") || strings.HasPrefix(line, "system:") || strings.HasPrefix(line, "muster:") {
			t.Errorf("%q is recorded", line)
		}
	}
	if strings.Contains(string(data), words) {
		t.Error("the contents of a Secret are recorded")
	}
	if info, err := os.Stat(b.plane.AuditLog()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record has mode %v, %v", info.Mode(), err)
	}
}

// tenants: two requests of a new user at once make one tenant; later ones ask nothing.
func (b *box) tenants(t *testing.T) {
	admin := client(t, b.plane)
	const dan = 1003
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() { errs[i] = b.keeper.Ensure(within(t), dan, nil) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	before := b.asked.Load()
	for range 100 {
		if err := b.keeper.Ensure(within(t), dan, nil); err != nil {
			t.Fatal(err)
		}
	}
	if more := b.asked.Load() - before; more != 0 {
		t.Errorf("a tenant that is there takes %d requests", more)
	}
	home, err := admin.CoreV1().Namespaces().Get(within(t), "u-1003", metav1.GetOptions{})
	if err != nil || home.Annotations[tenant.AnnotationGIDs] != "1003" {
		t.Errorf("the namespace of uid 1003: %v, %v", home.Annotations, err)
	}
	for queue, parent := range map[string]string{"u-1000": "vision", "u-1003": ""} {
		text, err := try(within(t), admin, http.MethodGet, "/apis/muster.dev/v1alpha1/queues/"+queue, "")
		found := &v1alpha1.Queue{}
		if err = errors.Join(err, json.Unmarshal(text, found)); err != nil || found.Spec.Parent != parent {
			t.Errorf("queue %s is below %q, want %q: %v", queue, found.Spec.Parent, parent, err)
		}
	}
	// Another keeper, as after a restart, looks once.
	config := b.plane.RESTConfig()
	var count atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &count} })
	server, err := apiclient.New(config, apiclient.Options{Scheme: kinds(t)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := tenant.NewKeeper(tenant.KeeperOptions{Server: server, Directory: b.users})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Get(within(t), apiclient.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil { // it learns the kinds
		t.Fatal(err)
	}
	count.Store(0)
	if err := again.Ensure(within(t), dan, nil); err != nil || count.Load() != 1 {
		t.Errorf("after a restart: %d requests, %v", count.Load(), err)
	}
}

// fairness: requests of users are shared out, each user's by itself.
func (b *box) fairness(t *testing.T) {
	var schema string
	config := &rest.Config{Host: "http://muster", Dial: func(context.Context, string, string) (net.Conn, error) { return dialAs(b.path, ada) }}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://muster"+podsOfAda, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	schema = answer.Header.Get("X-Kubernetes-Pf-Flowschema-Uid")
	text, err := try(within(t), client(t, b.plane), http.MethodGet, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/muster-users", "")
	if err != nil || schema == "" || !strings.Contains(string(text), schema) {
		t.Errorf("the flow schema of a user's request is %q, not muster-users: %v", schema, err)
	}
}

// TestRulesFollowTheVersion: rules of an earlier version go, those that are missing come
// back, and a control plane of one user has none.
func TestRulesFollowTheVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := controlplane.Options{DataDir: dir, Shared: sharing()}
	c, err := attempt(t, options)
	if err != nil {
		t.Fatal(err)
	}
	admin := client(t, c)
	labels := map[string]string{"app.kubernetes.io/part-of": "muster", "app.kubernetes.io/managed-by": "muster"}
	for name, annotations := range map[string]map[string]string{"muster-former": {"muster.dev/manifest": "0"}, "of-an-administrator": nil} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
		if _, err := admin.RbacV1().ClusterRoles().Create(within(t), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	policies := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if err := policies.Delete(within(t), "muster-containers", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stop(t, c)
	if c, err = attempt(t, options); err != nil {
		t.Fatal(err)
	}
	admin = client(t, c)
	if _, err := admin.RbacV1().ClusterRoles().Get(within(t), "muster-former", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the rule of an earlier version: %v", err)
	}
	if _, err := admin.RbacV1().ClusterRoles().Get(within(t), "of-an-administrator", metav1.GetOptions{}); err != nil {
		t.Errorf("the role of an administrator: %v", err)
	}
	if _, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(within(t), "muster-containers", metav1.GetOptions{}); err != nil {
		t.Errorf("the policy that was missing: %v", err)
	}
	stop(t, c)
	c = start(t, controlplane.Options{DataDir: dir})
	admin = client(t, c)
	left, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(within(t), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("a control plane of one user has %d policies, %v", len(left.Items), err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}
