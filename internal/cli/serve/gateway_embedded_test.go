//go:build embedded

package serve_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/data/key"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/authority"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

// makeKey has muster data key make one.
func makeKey(t *testing.T, as *rehearsal.Server, more ...string) key.Item {
	t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"--kubeconfig", as.Kubeconfig, "data", "key", "create", "-o", "json"}, more...)
	if code := cli.Execute(t.Context(), args, terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: &errs, NoColor: true}, as.Verbs...); code != exit.OK {
		t.Fatalf("muster data key create: %d: %s", code, errs.String())
	}
	var made key.Item
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// s3Client is a client that trusts what the key came with, and nothing else.
func s3Client(t *testing.T, made key.Item) *minio.Client {
	t.Helper()
	bundle, err := os.ReadFile(made.CABundleFile)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(bundle) || string(bundle) != made.CABundle {
		t.Fatalf("%q has no bundle: %v", made.CABundleFile, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := minio.New(strings.TrimPrefix(made.Endpoint, "https://"), &minio.Options{
		Creds: credentials.NewStaticV4(made.AccessKeyID, made.SecretAccessKey, ""), Secure: true, Transport: transport,
		Region: gateway.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func putText(ctx context.Context, c *minio.Client, object, text string) error {
	_, err := c.PutObject(ctx, "digits", object, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
	return err
}

func getText(ctx context.Context, c *minio.Client, object string) (string, error) {
	o, err := c.GetObject(ctx, "digits", object, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(o)
	return string(text), err
}

// refusedWith reports whether S3 refused with a code and words.
func refusedWith(err error, code, words string) bool {
	said := minio.ToErrorResponse(err)
	return said.Code == code && strings.Contains(said.Message, words)
}

const installGateway = "install --no-wait --reset-values --set manager.replicas=0,data.persistentVolumeClaim=data,data.gateway.enabled=true,namespace.podSecurity=privileged"

// TestS3OnACluster is two replicas of the manager, with the rights of its service account
// alone, that serve S3 clients with keys of tenants.
func TestS3OnACluster(t *testing.T) {
	server := rehearsal.StartCluster(t)
	home := t.TempDir()
	t.Setenv("MUSTER_HOME", home)
	ada, mallory := filepath.Join(home, "ada.kubeconfig"), filepath.Join(home, "mallory.kubeconfig")
	server.Run(t, []rehearsal.Step{
		{Args: installGateway, Says: "is applied"},
		{Args: "user add ada --lifetime 1h --file " + ada, Says: "ada"},
		{Args: "user add mallory --queue shared --lifetime 1h --file " + mallory, Says: "mallory"},
	})
	asAda, asMallory := server.As(t, ada), server.As(t, mallory)
	here, there := freeAddress(t), freeAddress(t)
	store := t.TempDir()
	serve(t, server, "--door", standIn(t, server.Client), "--store-folder", store, "--gateway", here, "--gateway-endpoint", "https://"+here, "--gateway-key-life", "8h", "--identity", "here")
	awaitDoor(t, asAda)
	asAda.Run(t, []rehearsal.Step{
		{Args: "data create digits", Says: "created"},
		{Args: "data key list", Says: "There are no access keys in namespace ada"},
		{Args: "data key create --for 9h", Code: 1, Says: "8h0m0s is the longest"},
		{Args: "data key delete MUNONE", Code: 3, Says: "there is no access key MUNONE in namespace ada"},
		{Args: "data key create -n mallory", Code: 1, Says: "you may not speak for namespace mallory"},
		{Args: "data key create --for 1h", Says: "AWS_CA_BUNDLE='" + home},
	})
	made := makeKey(t, asAda)
	if made.User != "system:serviceaccount:ada:ada" || made.Namespace != "ada" || made.Until == nil || made.Endpoint != "https://"+here {
		t.Errorf("%+v", made)
	}
	c := s3Client(t, made)
	t.Run("put and get", func(t *testing.T) { putAndGet(t, server, asAda, c) })
	t.Run("an open commit", func(t *testing.T) { openCommit(t, asAda, c) })
	t.Run("where keys are", func(t *testing.T) { whereKeysAre(t, server, asAda, made) })
	t.Run("without rights", func(t *testing.T) { withoutRights(t, server, asMallory) })
	t.Run("made by hand", func(t *testing.T) { madeByHand(t, server, made) })
	t.Run("of an earlier version", func(t *testing.T) { adopted(t, server, asAda, made) })
	t.Run("another replica", func(t *testing.T) {
		// It does not lead, and has no door of its own.
		follow(t, server, store, there, "there")
		other := made
		other.Endpoint = "https://" + there
		d := s3Client(t, other)
		rehearsal.Eventually(t, "the other replica serves", func(ctx context.Context) bool {
			text, err := getText(ctx, d, "main/a.txt")
			return err == nil && text == "of ada"
		})
		if err := putText(t.Context(), d, "main/b.txt", "of the other"); err != nil {
			t.Error(err)
		}
		if text, err := getText(t.Context(), c, "main/b.txt"); text != "of the other" {
			t.Errorf("%q, %v", text, err)
		}
	})
	t.Run("a certificate of one's own", func(t *testing.T) { ownCertificate(t, server, store, made) })
	t.Run("revoked", func(t *testing.T) {
		asMallory.Run(t, []rehearsal.Step{{Args: "data key delete " + made.AccessKeyID, Code: 3, Says: "no access key"}})
		asAda.Run(t, []rehearsal.Step{
			{Args: "data key list", Says: made.AccessKeyID},
			{Args: "data key delete " + made.AccessKeyID, Says: "deleted"},
		})
		rehearsal.Eventually(t, "the key is good no more", func(ctx context.Context) bool {
			_, err := getText(ctx, c, "main/a.txt")
			return refusedWith(err, "InvalidAccessKeyId", "")
		})
	})
	t.Run("removed", func(t *testing.T) { removed(t, server, asMallory) })
}

// ownCertificate tests a replica that serves the certificate of a Secret, once that certificate
// is for the replica's address. The chart gives the right to read that Secret.
func ownCertificate(t *testing.T, server *rehearsal.Server, store string, made key.Item) {
	address := freeAddress(t)
	server.Run(t, []rehearsal.Step{{Args: installGateway + " --set data.gateway.certificateSecret=s3-tls,data.gateway.endpoint=https://" + address, Says: "is applied"}})
	defer server.Run(t, []rehearsal.Step{{Args: installGateway, Says: "is applied"}})
	signer, err := authority.Open(t.Context(), server.Client, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "somebody-else"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "s3-tls"}, Type: corev1.SecretTypeTLS}
	give := func(host string) {
		chain, private, err := signer.Issue([]string{host}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: private, "ca.crt": signer.Bundle()}
	}
	give("elsewhere.example.com")
	if err := server.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	said := follow(t, server, store, address, "certified", "--gateway-certificate", "s3-tls")
	select {
	case <-said:
	case <-time.After(time.Minute):
		t.Fatal("nobody says that the certificate is for another host")
	}
	if conn, err := net.Dial("tcp", address); err == nil { //nolint:noctx // It is refused.
		_ = conn.Close()
		t.Error("it serves with a certificate that is for another host")
	}
	give("127.0.0.1")
	if err := server.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	made.Endpoint, made.CABundle, made.CABundleFile = "https://"+address, string(signer.Bundle()), filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(made.CABundleFile, signer.Bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := s3Client(t, made)
	rehearsal.Eventually(t, "it serves with the certificate that is given", func(ctx context.Context) bool {
		text, err := getText(ctx, c, "main/a.txt")
		return err == nil && text == "of ada"
	})
}

// putAndGet is data by S3 and by muster data.
func putAndGet(t *testing.T, server, ada *rehearsal.Server, c *minio.Client) {
	rehearsal.Eventually(t, "the gateway serves", func(ctx context.Context) bool {
		_, err := c.ListBuckets(ctx)
		return err == nil
	})
	if err := putText(t.Context(), c, "main/a.txt", "of ada"); err != nil {
		t.Fatal(err)
	}
	if text, err := getText(t.Context(), c, "main/a.txt"); text != "of ada" {
		t.Errorf("%q, %v", text, err)
	}
	ada.Run(t, []rehearsal.Step{
		{Args: "data cat digits:/a.txt", Says: "of ada"},
		{Args: "data log digits", Says: "put a.txt (S3)"},
		{Args: "data log digits -o json", Says: "system:serviceaccount:ada:ada"},
	})
	long := bytes.Repeat([]byte("0123456789abcdef"), 12<<20/16)
	if _, err := c.PutObject(t.Context(), "digits", "main/long", bytes.NewReader(long), int64(len(long)), minio.PutObjectOptions{PartSize: 5 << 20}); err != nil {
		t.Fatal(err)
	}
	if text, err := getText(t.Context(), c, "main/long"); text != string(long) {
		t.Errorf("%d bytes of %d, %v", len(text), len(long), err)
	}
	object := &v1alpha1.Dataset{}
	if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: "ada", Name: "digits"}, object); err != nil || len(object.Spec.Branches) != 1 || object.Spec.Branches[0].Files != 2 {
		t.Errorf("%+v, %v", object.Spec, err)
	}
	unknown := &http.Client{Timeout: 0}
	if answer, err := unknown.Get(c.EndpointURL().String()); err == nil {
		_ = answer.Body.Close()
		t.Error("a client that trusts the system's authorities alone was served")
	}
}

// openCommit puts by S3 and by muster data into one commit, through the door.
func openCommit(t *testing.T, ada *rehearsal.Server, c *minio.Client) {
	ada.Run(t, []rehearsal.Step{{Args: "data open digits", Says: "digits@main: a commit is open"}})
	if err := putText(t.Context(), c, "main/later/a", "not yet"); err != nil {
		t.Fatal(err)
	}
	if text, err := getText(t.Context(), c, "main/later/a"); text != "not yet" {
		t.Errorf("%q, %v", text, err)
	}
	ada.Run(t, []rehearsal.Step{
		{Args: "data cat digits:/later/a", Code: 3, Says: "later/a"},
		{Args: "data branch digits", Says: "OPENED"},
		{Args: "data close digits -m together", Says: "digits@main is at "},
		{Args: "data cat digits:/later/a", Says: "not yet"},
		{Args: "data log digits", Says: "together"},
		{Args: "data rm digits:/later", Says: "1 file removed"},
	})
}

// whereKeysAre tests that tenants cannot read the manager's Secrets with keys, and that the
// manager can read no other Secret of its namespace.
func whereKeysAre(t *testing.T, server, ada *rehearsal.Server, made key.Item) {
	manager, text := server.As(t, asManager(t, server)), ""
	for i := range registry.Shards {
		at, s := client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: registry.ShardName(i)}, &corev1.Secret{}
		if err := client.IgnoreNotFound(server.Client.Get(t.Context(), at, s)); err != nil {
			t.Fatal(err)
		}
		text += string(s.Data[made.AccessKeyID])
		if err := ada.Client.Get(t.Context(), at, &corev1.Secret{}); !apierrors.IsForbidden(err) {
			t.Errorf("a tenant reads a Secret with keys: %v", err)
		}
	}
	if !strings.Contains(text, "system:serviceaccounts:ada") {
		t.Errorf("the key is kept as %s", text)
	}
	all := &corev1.SecretList{}
	if err := ada.Client.List(t.Context(), all, client.InNamespace("ada")); err != nil || len(all.Items) != 0 {
		t.Errorf("%d Secrets are in the tenant's namespace, %v", len(all.Items), err)
	}
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "muster-s3"}}
	if err := server.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"lists Secrets":        manager.Client.List(t.Context(), all, client.InNamespace(v1alpha1.SystemNamespace)),
		"reads the bucket's":   manager.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other.DeepCopy()),
		"changes the bucket's": manager.Client.Update(t.Context(), other.DeepCopy()),
		"deletes a shard":      manager.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: registry.ShardName(0)}}),
		"makes another":        manager.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "token"}, Type: registry.ShardType}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the manager %s: %v", what, err)
		}
	}
}

// adopted tests a key of an earlier version before, during and after an upgrade.
func adopted(t *testing.T, server, ada *rehearsal.Server, made key.Item) {
	made.AccessKeyID, made.SecretAccessKey = "MUEARLIER", "of an earlier version"
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.SystemNamespace, Name: "access-key-muearlier",
		Labels: map[string]string{"muster.dev/access-key": made.AccessKeyID, "muster.dev/access-key-namespace": "ada"},
	}, Type: registry.SecretType, Immutable: new(true), StringData: map[string]string{
		"accessKeyID": made.AccessKeyID, "secretAccessKey": made.SecretAccessKey, "user": made.User, "namespace": "ada",
		"ends": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}}
	if err := server.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	c := s3Client(t, made)
	works := func(what string) {
		rehearsal.Eventually(t, what, func(ctx context.Context) bool {
			_, err := c.ListBuckets(ctx)
			return err == nil
		})
	}
	server.Run(t, []rehearsal.Step{{Args: installGateway, Says: "1 access keys of S3 clients still have Secrets of an earlier version"}})
	works("the key that was copied is good")
	// The kubeconfig of a cluster is not in a data folder of an embedded Muster.
	text, err := os.ReadFile(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if err := os.WriteFile(elsewhere, text, 0o600); err != nil {
		t.Fatal(err)
	}
	admin := server.As(t, elsewhere)
	admin.Run(t, []rehearsal.Step{{Args: "data key adopt --copy", Says: "1 access keys of an earlier version copied"}})
	admin.Run(t, []rehearsal.Step{
		{Args: "data key adopt", Says: "1 access keys of an earlier version moved"},
		{Args: "data key adopt", Says: "0 access keys of an earlier version moved"},
	})
	if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
		t.Errorf("its Secret: %v", err)
	}
	works("the key that was moved is good")
	ada.Run(t, []rehearsal.Step{
		{Args: "data key adopt", Code: 1, Says: "may not"},
		{Args: "data key list", Says: made.AccessKeyID},
		{Args: "data key delete " + made.AccessKeyID, Says: "deleted"},
	})
}

// removed tests that the keys of a user end with their namespace.
func removed(t *testing.T, server, mallory *rehearsal.Server) {
	made := makeKey(t, mallory)
	c := s3Client(t, made)
	if _, err := c.ListBuckets(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{{Args: "user remove mallory --yes", Says: "mallory is removed"}})
	for i := range registry.Shards {
		s := &corev1.Secret{}
		err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: registry.ShardName(i)}, s)
		if client.IgnoreNotFound(err) != nil || s.Data[made.AccessKeyID] != nil {
			t.Errorf("the key is still in shard %d, %v", i, err)
		}
	}
	rehearsal.Eventually(t, "the key is good no more", func(ctx context.Context) bool {
		_, err := c.ListBuckets(ctx)
		return refusedWith(err, "InvalidAccessKeyId", "")
	})
}

// withoutRights has mallory speak for ada's namespace, and only read in it.
func withoutRights(t *testing.T, server, mallory *rehearsal.Server) {
	meta := metav1.ObjectMeta{Namespace: "ada", Name: "reader"}
	err := errors.Join(
		server.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"muster.dev"}, Resources: []string{"datasets"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{v1alpha1.DoorAccount}, Verbs: []string{"create"}},
		}}),
		server.Client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:mallory"}}}))
	if err != nil {
		t.Fatal(err)
	}
	var made key.Item
	rehearsal.Eventually(t, "the right is there", func(context.Context) bool {
		var out bytes.Buffer
		args := []string{"--kubeconfig", mallory.Kubeconfig, "data", "key", "create", "-n", "ada", "-o", "json"}
		code := cli.Execute(t.Context(), args, terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: io.Discard, NoColor: true}, mallory.Verbs...)
		return code == exit.OK && json.Unmarshal(out.Bytes(), &made) == nil
	})
	c := s3Client(t, made)
	if text, err := getText(t.Context(), c, "main/a.txt"); text != "of ada" {
		t.Errorf("%q, %v", text, err)
	}
	const who = "system:serviceaccount:mallory:mallory may not "
	if err := putText(t.Context(), c, "main/a.txt", "mine"); !refusedWith(err, "AccessDenied", who+"update dataset digits in namespace ada") {
		t.Errorf("writing: %v", err)
	}
	if _, err := c.ListBuckets(t.Context()); !refusedWith(err, "AccessDenied", who+"list datasets in namespace ada") {
		t.Errorf("listing: %v", err)
	}
	mallory.Run(t, []rehearsal.Step{{Args: "data key delete -n ada " + made.AccessKeyID, Says: "deleted"}})
}

// madeByHand: a key that a tenant writes into their own namespace is none.
func madeByHand(t *testing.T, server *rehearsal.Server, made key.Item) {
	s := &corev1.Secret{}
	s.Namespace, s.Name, s.Type = "ada", "access-key-mumallory", "muster.dev/access-key"
	s.Labels = map[string]string{"muster.dev/access-key": "MUMALLORY"}
	s.StringData = map[string]string{"accessKeyID": "MUMALLORY", "secretAccessKey": "known", "user": "admin", "groups": "system:masters"}
	if err := server.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	forged := made
	forged.AccessKeyID, forged.SecretAccessKey = "MUMALLORY", "known"
	if _, err := s3Client(t, forged).ListBuckets(t.Context()); !refusedWith(err, "InvalidAccessKeyId", "") {
		t.Errorf("%v", err)
	}
}

// closed is what a replica says whose certificate is for another host.
const closed = "users are told that the gateway is 127.0.0.1, and it is not for that"

// follow serves as another replica does, which stands by. The channel is closed once it
// says that its gateway stays closed for its certificate.
func follow(t *testing.T, server *rehearsal.Server, store, address, identity string, more ...string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan exit.Code, 1)
	args := []string{"serve", "--kubeconfig", asManager(t, server), "--metrics", "0", "--health", "0", "--identity", identity,
		"--door", "127.0.0.1:0", "--store-folder", store, "--gateway", address, "--gateway-endpoint", "https://" + address}
	args = append(args, more...)
	out := &said{wait: map[string]chan struct{}{closed: make(chan struct{})}}
	heard := out.wait[closed]
	go func() {
		done <- cli.Execute(ctx, args, terminal.Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: out, NoColor: true})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != exit.OK {
			t.Errorf("the other replica ended with %d: %s", code, out.text.String())
		}
	})
	return heard
}
