//go:build embedded

package credential_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/controlplane/pki"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/receiver"
	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
	"github.com/muster-dev/muster/internal/tenant"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// The users of the test. eve is in no group of ada's.
const (
	ada, eve = 41001, 41002
	passwd   = "root:x:0:0::/root:/bin/sh\nada:x:41001:41001::/home/ada:/bin/sh\neve:x:41002:41002::/home/eve:/bin/sh\n"
	group    = "root:x:0:\nada:x:41001:\neve:x:41002:\nvision:x:41100:ada\n"
)

// machine is a Muster of several users: a real API server with the roles and policies of
// Muster, the front proxy, the door with its stores, and the socket.
type machine struct {
	server *rehearsal.Server
	// folder is one that every user may enter, program is muster, and socket is the path.
	folder, program, socket string

	adding sync.Mutex
	added  map[uint32]bool // users who have their namespace
}

func start(t *testing.T) *machine {
	t.Helper()
	m := &machine{server: rehearsal.StartCluster(t), folder: t.TempDir(), added: map[uint32]bool{}}
	must(t, os.Chmod(m.folder, 0o755))
	must(t, os.Chmod(filepath.Dir(m.folder), 0o755)) // t.TempDir closes it to others
	m.program, m.socket = filepath.Join(m.folder, "muster"), filepath.Join(m.folder, "run", "muster.sock")
	copyProgram(t, harness.Binary(), m.program)
	m.server.Run(t, []rehearsal.Step{{Args: "install --no-wait --set manager.replicas=0", Says: "is applied"}})
	users := filepath.Join(m.folder, "etc")
	must(t, os.Mkdir(users, 0o755))
	must(t, errors.Join(os.WriteFile(filepath.Join(users, "passwd"), []byte(passwd), 0o600), os.WriteFile(filepath.Join(users, "group"), []byte(group), 0o600)))
	directory := account.New(account.Options{Folder: users, FilesOnly: true})
	t.Cleanup(directory.Close)
	code, err := shelf.OpenFolder(filepath.Join(m.folder, "code"))
	must(t, err)
	data, err := warehouse.Open(warehouse.Options{Folder: filepath.Join(m.folder, "data"), Quota: 16 << 20})
	must(t, err)
	handler := door.New(door.Options{
		API: m.server.Client, Pods: m.server.Client, Namespace: v1alpha1.SystemNamespace, Code: depot.New(depot.Options{Shelf: code}), Data: data,
		Receive: receiver.New(receiver.Options{API: m.server.Client, Directory: directory}).Receive,
	}).Handler()
	server, err := userapi.New(userapi.Options{
		Directory: directory, API: m.proxy(t, directory), Door: handler, Sign: m.sign(t),
		Cluster: userapi.Cluster{Server: m.server.Config.Host, Authority: m.authority(t)},
		Prepare: func(ctx context.Context, caller peer.Peer) error {
			m.adding.Lock()
			defer m.adding.Unlock()
			if m.added[caller.UID] {
				return nil
			}
			_, err := tenant.Add(ctx, m.server.Client, tenant.OfMachine(caller.UID, ""))
			m.added[caller.UID] = err == nil
			return err
		},
	})
	must(t, err)
	listener, err := peer.Listen(t.Context(), m.socket)
	must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, errors.Join(err, out.Close()))
}

// authority is that of the API server, PEM.
func (m *machine) authority(t *testing.T) []byte {
	t.Helper()
	config := rest.CopyConfig(m.server.Config)
	must(t, rest.LoadTLSFiles(config))
	return config.CAData
}

// sign signs with the key of the API server's own authority.
func (m *machine) sign(t *testing.T) userapi.Signer {
	t.Helper()
	folder := filepath.Join(filepath.Dir(m.server.Kubeconfig), "pki")
	authority, err := tls.LoadX509KeyPair(pki.CertFile(folder, "ca"), pki.KeyFile(folder, "ca"))
	must(t, err)
	return func(key crypto.PublicKey, user string, groups []string, life time.Duration) ([]byte, error) {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user, Organization: groups},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(life),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, authority.Leaf, key, authority.PrivateKey)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
	}
}

// proxy is the front proxy. This API server trusts no proxy, so between the two stands a
// server that turns the identity, which only the proxy's certificate may give, into
// impersonation: the API server judges the same user and groups.
func (m *machine) proxy(t *testing.T, directory frontproxy.Directory) http.Handler {
	t.Helper()
	transport, err := rest.TransportFor(m.server.Config)
	must(t, err)
	to, err := url.Parse(m.server.Config.Host)
	must(t, err)
	front, roots := selfSigned(t)
	between := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Set("Impersonate-User", r.In.Header.Get("X-Remote-User"))
			r.Out.Header["Impersonate-Group"] = r.In.Header["X-Remote-Group"]
		},
	})
	between.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MinVersion: tls.VersionTLS13}
	between.StartTLS()
	t.Cleanup(between.Close)
	server, err := url.Parse(between.URL)
	must(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(between.Certificate())
	proxy, err := frontproxy.New(frontproxy.Options{Server: server, Directory: directory, TLS: &tls.Config{
		Certificates: []tls.Certificate{front}, RootCAs: trusted, MinVersion: tls.VersionTLS13,
	}})
	must(t, err)
	t.Cleanup(proxy.Close)
	return proxy
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// home is a user's folder, and where their commands run.
func (m *machine) home(t *testing.T, uid int) string {
	t.Helper()
	home := filepath.Join(m.folder, fmt.Sprint("home-", uid))
	if err := os.Mkdir(home, 0o700); !errors.Is(err, os.ErrExist) {
		must(t, errors.Join(err, os.WriteFile(filepath.Join(home, "train.py"), fmt.Appendln(nil, "print", uid), 0o644),
			os.Chown(home, uid, uid), os.Chown(filepath.Join(home, "train.py"), uid, uid)))
	}
	return home
}

// run runs muster as a process of a user, and returns its exit code and what it wrote.
func (m *machine) run(t *testing.T, uid int, words string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	home := m.home(t, uid)
	cmd := exec.CommandContext(ctx, m.program, strings.Fields(words)...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "MUSTER_SOCKET=" + m.socket, "PATH=/usr/bin:/bin", "NO_COLOR=1", "XDG_RUNTIME_DIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// step is a command line of a user, and what is expected of it.
type step struct {
	uid   int
	words string
	code  int
	says  string
}

func (m *machine) steps(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		if code, said := m.run(t, s.uid, s.words); code != s.code || !strings.Contains(said, s.says) {
			t.Errorf("uid %d: muster %s: code %d, want %d and %q:\n%s", s.uid, s.words, code, s.code, s.says, said)
		}
	}
}

// TestTwoUsers: processes of two users of one machine reach Muster by its socket. Each
// lists, runs and reads their own, and is refused what is the other's.
func TestTwoUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of two users")
	}
	m := start(t)
	m.awaitPolicies(t)
	t.Run("their own", func(t *testing.T) {
		var steps []step
		for _, uid := range []int{ada, eve} {
			steps = append(steps,
				step{uid, "get", 0, "no training jobs"},
				step{uid, "run --detach --name mnist --code none -- true", 0, "mnist"},
				step{uid, "run --detach --name coded --image example.com/python --code . -- python train.py", 0, "coded"},
				step{uid, "get", 0, "mnist"},
				step{uid, "describe mnist", 0, fmt.Sprintf("unix:%d", uid)},
				step{uid, "data create corpus", 0, "corpus"},
				step{uid, "data put train.py corpus", 0, ""},
				step{uid, "data cat corpus:/train.py", 0, fmt.Sprint("print ", uid)},
				step{uid, "data du", 0, "corpus"},
				step{uid, "kubectl auth whoami", 0, fmt.Sprintf("unix:%d", uid)},
				step{uid, "kubectl get trainingjobs", 0, "mnist"},
				step{uid, "credential -o kubeconfig", 0, "client.authentication.k8s.io/v1"},
			)
		}
		m.steps(t, append(steps, step{ada, "kubectl auth whoami", 0, "unix-group:vision"}))
	})
	t.Run("the other's", func(t *testing.T) {
		for _, c := range []struct{ who, other int }{{ada, eve}, {eve, ada}} {
			of := fmt.Sprint(" -n u-", c.other)
			m.steps(t, []step{
				{c.who, "get" + of, 1, "forbidden: you may not in namespace"},
				{c.who, "get secrets" + of, 1, "forbidden: you may not in namespace"},
				{c.who, "describe mnist" + of, 1, "may not"},
				{c.who, "delete mnist" + of, 1, "may not"},
				{c.who, "suspend mnist" + of, 1, "may not"},
				{c.who, "logs mnist" + of, 1, "may not"},
				{c.who, "run --detach --name theirs --code none" + of + " -- true", 1, "may not"},
				{c.who, fmt.Sprintf("run --detach --name theirs --code none --queue u-%d -- true", c.other), 1, "may not use queue"},
				{c.who, "data cat corpus:/train.py" + of, 1, "may not"},
				{c.who, "data create theirs" + of, 1, "may not"},
				{c.who, "kubectl get pods" + of, 1, "Forbidden"},
				{c.who, "kubectl get nodes", 1, "Forbidden"},
				{c.who, "kubectl get pods --as=unix:" + fmt.Sprint(c.other) + of, 1, "cannot impersonate"},
			})
		}
	})
	t.Run("streams", m.streams)
	t.Run("the door", m.refusedAtDoor)
	t.Run("nobody's", func(t *testing.T) {
		m.steps(t, []step{{49999, "get", 1, "uid 49999 is no user of this machine"}, {49999, "credential", 1, "is no user of this machine"}})
	})
}

// streams: exec goes by the port, with a certificate of the caller.
func (m *machine) streams(t *testing.T) {
	job := &v1alpha1.TrainingJob{}
	must(t, m.server.Client.Get(t.Context(), client.ObjectKey{Namespace: tenant.OfMachine(ada, "").Name, Name: "mnist"}, job))
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob", Name: job.Name, UID: job.UID}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "mnist-worker-0", OwnerReferences: []metav1.OwnerReference{owner}, Labels: map[string]string{
			v1alpha1.LabelGang: "mnist", v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "example.com/python"}}},
	}
	config := rest.CopyConfig(m.server.Config)
	config.Impersonate.UserName = "system:serviceaccount:muster-system:muster-manager" // who alone makes members
	manager, err := client.New(config, client.Options{Scheme: m.server.Client.Scheme()})
	must(t, err)
	must(t, manager.Create(t.Context(), pod))
	from := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	must(t, m.server.Client.Status().Patch(t.Context(), pod, client.MergeFrom(from)))
	// No node has the pod: that far comes who may.
	m.steps(t, []step{
		{ada, "shell mnist -- true", 1, "does not have a host assigned"},
		{ada, "cp mnist:/etc/hostname .", 1, "does not have a host assigned"},
		{ada, "kubectl exec mnist-worker-0 -- true", 1, "does not have a host assigned"},
		{eve, "shell mnist -n u-41001 -- true", 1, "may not"},
		{eve, "kubectl exec -n u-41001 mnist-worker-0 -- true", 1, "Forbidden"},
	})
}

// refusedAtDoor: the handlers of the door refuse another user's namespace by themselves.
func (m *machine) refusedAtDoor(t *testing.T) {
	for _, path := range []string{"/data?prefix=packs/", "/code/sha256:" + strings.Repeat("0", 64)} {
		for of, want := range map[int]bool{ada: true, eve: false} {
			target := fmt.Sprintf("http://muster%s/v1/namespaces/u-%d%s", userapi.DoorPath, of, path)
			code, said := m.curl(t, ada, target)
			if forbidden := strings.Contains(said, "may not speak for namespace"); code != 0 || forbidden == want {
				t.Errorf("%s as %d: %d %s", target, ada, code, said)
			}
		}
	}
}

// curl asks the socket as a user.
func (m *machine) curl(t *testing.T, uid int, target string) (int, string) {
	t.Helper()
	program, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	cmd := exec.CommandContext(t.Context(), program, "-s", "--max-time", "20", "--unix-socket", m.socket, target)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// awaitPolicies waits until the server's caches know the policies.
func (m *machine) awaitPolicies(t *testing.T) {
	t.Helper()
	rehearsal.Eventually(t, "policies hold", func(context.Context) bool {
		_, own := m.run(t, ada, "kubectl create --dry-run=server -o yaml -f "+m.manifest(t, "u-41001"))
		_, other := m.run(t, ada, "kubectl create --dry-run=server -o yaml -f "+m.manifest(t, "u-41002"))
		return strings.Contains(own, v1alpha1.AnnotationSubmitter) && strings.Contains(other, "may not use queue u-41002")
	})
}

// manifest is a job of ada's in a queue.
func (m *machine) manifest(t *testing.T, queue string) string {
	t.Helper()
	path := filepath.Join(m.folder, queue+".yaml")
	text := fmt.Sprintf("apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: try}\nspec: {queue: %s, roles: [{name: worker, command: [\"true\"]}]}\n", queue)
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}
