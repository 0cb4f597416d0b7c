//go:build conformance

package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// accessKey is what `muster data key create -o json` prints.
type accessKey struct {
	AccessKeyID, SecretAccessKey, User, Endpoint, Region, CABundle string
}

// s3 is a client with a key, which trusts what came with it and nothing else.
func (p *platform) s3(t testing.TB, k accessKey) *minio.Client {
	t.Helper()
	at, err := url.Parse(k.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	if at.Scheme == "https" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(k.CABundle)) {
			t.Fatalf("%q is no bundle", k.CABundle)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		// Names of Services are known within a cluster alone.
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			managers := &corev1.PodList{}
			err = p.api.List(ctx, managers, client.InNamespace(v1alpha1.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"})
			if err != nil || len(managers.Items) == 0 {
				return nil, errors.Join(err, errors.New("there is no manager"))
			}
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(managers.Items[0].Status.PodIP, port))
		}
	}
	c, err := minio.New(at.Host, &minio.Options{
		Creds: credentials.NewStaticV4(k.AccessKeyID, k.SecretAccessKey, ""), Secure: at.Scheme == "https", Transport: transport,
		Region: k.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDataByS3 is data that an S3 client puts and gets, until its key is revoked or its
// user has the right no more. Where there is no gateway, that is said.
func TestDataByS3(t *testing.T) {
	k := &keeper{TB: t, dir: t.TempDir(), kubeconfig: the.kubeconfig, namespace: the.namespace(t)}
	if the.counts {
		if r := k.data("key", "create"); r.Code != 3 || !strings.Contains(r.Stderr, "there is no S3 gateway on this cluster") {
			t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		return
	}
	if the.vanish != nil { // a cluster: somebody who may do as much as is needed and no more
		k.namespace = "ida"
		k.kubeconfig = filepath.Join(k.dir, "kubeconfig")
		if r := the.muster(t, "user", "add", "ida", "--lifetime", "1h", "--file", k.kubeconfig); r.Code != 0 {
			t.Fatalf("muster user add: %s", r.Stderr)
		}
		t.Cleanup(func() {
			if r := the.muster(t, "user", "remove", "ida", "--force", "--yes"); r.Code != 0 {
				t.Errorf("muster user remove: %s", r.Stderr)
			}
		})
	}
	k.says("created", "create", "digits")
	r := k.data("key", "create", "-o", "json")
	var made accessKey
	if err := json.Unmarshal([]byte(r.Stdout), &made); r.Code != 0 || err != nil {
		t.Fatalf("exit code %d: %s %v", r.Code, r.Stderr, err)
	}
	c := the.s3(t, made)
	put := func(object, text string) error {
		_, err := c.PutObject(t.Context(), "digits", object, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{PartSize: 5 << 20})
		return err
	}
	get := func(object string) (string, error) {
		o, err := c.GetObject(t.Context(), "digits", object, minio.GetObjectOptions{})
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(o)
		return string(text), err
	}
	long := strings.Repeat("a line of a file that comes in parts\n", 200_000) // 7 MB
	for object, text := range map[string]string{"main/a.txt": "by S3", "main/long": long} {
		if err := put(object, text); err != nil {
			t.Fatalf("putting %s: %v", object, err)
		}
		if got, err := get(object); got != text {
			t.Errorf("%s has %d bytes, want %d (%v)", object, len(got), len(text), err)
		}
	}
	k.says("by S3", "cat", "digits:/a.txt")
	k.write("more/b.txt", "by the command")
	k.says("1 added", "put", "more", "digits")
	if got, err := get("main/b.txt"); got != "by the command" {
		t.Errorf("%q, %v", got, err)
	}
	if the.vanish != nil {
		withoutRights(t, made.User, func() error { return put("main/c.txt", "more") })
	}
	k.revokes(made, func() error {
		_, err := get("main/a.txt")
		return err
	})
}

// withoutRights takes the rights of a tenant to write away while they have a key.
func withoutRights(t *testing.T, user string, put func() error) {
	t.Helper()
	binding := &rbacv1.RoleBinding{}
	if err := the.api.Get(t.Context(), client.ObjectKey{Namespace: "ida", Name: "muster-user"}, binding); err != nil {
		t.Fatal(err)
	}
	back, reads := binding.DeepCopy(), binding.DeepCopy()
	back.ResourceVersion, back.UID = "", ""
	reads.ObjectMeta, reads.RoleRef.Name = metav1.ObjectMeta{Namespace: "ida", Name: "reads"}, "muster-view"
	if err := errors.Join(the.api.Create(t.Context(), reads), the.api.Delete(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 30*time.Second, "waiting until the right is gone", func() error {
		said := minio.ToErrorResponse(put())
		if said.Code != "AccessDenied" || said.Message != user+" may not update dataset digits in namespace ida" {
			return fmt.Errorf("%s: %s", said.Code, said.Message)
		}
		return nil
	})
	if err := the.api.Create(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 30*time.Second, "waiting until the right is back", put)
}

// revokes removes a key, which is good for some seconds more.
func (k *keeper) revokes(made accessKey, ask func() error) {
	k.Helper()
	k.says(made.AccessKeyID, "key", "list")
	k.says("deleted", "key", "delete", made.AccessKeyID)
	harness.Eventually(k.TB, 30*time.Second, "waiting until the key is good no more", func() error {
		if said := minio.ToErrorResponse(ask()); said.Code != "InvalidAccessKeyId" {
			return fmt.Errorf("%s: %s", said.Code, said.Message)
		}
		return nil
	})
}
