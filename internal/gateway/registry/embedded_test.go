//go:build embedded

package registry_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

// start starts an API server with the kinds, and is a client of it.
func start(t *testing.T) client.Client {
	t.Helper()
	plane := planetest.Start(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config := plane.RESTConfig()
	config.QPS = -1
	server, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// eventually waits for what the server's caches show a moment later.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come: " + what)
		case <-tick.C:
		}
	}
}

// TestRegistry serves datasets of a real API server to a real client.
func TestRegistry(t *testing.T) {
	server := start(t)
	ctx := t.Context()
	for _, namespace := range []string{"team", "other"} {
		if err := server.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
		if err := server.Create(ctx, &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "digits"}}); err != nil {
			t.Fatal(err)
		}
	}
	key, err := registry.Create(ctx, server, "team", 0)
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	store, err := data.Open(ctx, data.Options{Backend: &backend.Memory{}})
	if err != nil {
		t.Fatal(err)
	}
	known := &registry.Registry{
		Client: server, Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) },
		Measure: func(ctx context.Context, namespace string, id digest.ID) (dataset.Size, error) {
			if namespace != "team" {
				t.Errorf("a commit of namespace %q is measured", namespace)
			}
			c, err := store.Dataset(&ref.Memory{}).Resolve(ctx, id.String())
			return dataset.Size{Files: c.Tree.Files, Bytes: c.Tree.Bytes}, err
		},
	}
	s3 := serve(t, known, store, key)
	put := func(content string) error {
		_, err := s3.PutObject(ctx, "digits", "main/a", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
		return err
	}
	if err := put("one"); err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "digits"}}
	if err := server.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil || len(object.Spec.Branches) != 1 || object.Spec.Branches[0].Bytes != 3 {
		t.Errorf("the Dataset has %+v, %v", object.Spec, err)
	}
	buckets, err := s3.ListBuckets(ctx)
	if err != nil || len(buckets) != 1 {
		t.Errorf("%v, %v", buckets, err)
	}
	if err := server.Delete(ctx, object); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bucket is gone", func() bool { return minio.ToErrorResponse(put("two")).Code == "NoSuchBucket" })

	t.Run("rights", func(t *testing.T) { rights(t, server, known) })
	if err := registry.Delete(ctx, server, "other", key.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another namespace's: %v", err)
	}
	if err := registry.Delete(ctx, server, "team", key.ID); err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(time.Minute))
	if _, err := s3.ListBuckets(ctx); minio.ToErrorResponse(err).Code != "InvalidAccessKeyId" {
		t.Errorf("a key that is deleted: %v", err)
	}
}

// rights asks for somebody who may only read.
func rights(t *testing.T, server client.Client, known *registry.Registry) {
	ctx := t.Context()
	meta := metav1.ObjectMeta{Namespace: "team", Name: "reader"}
	err := errors.Join(
		server.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"muster.dev"}, Resources: []string{"datasets"}, Verbs: []string{"get"}}}}),
		server.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve", APIGroup: rbacv1.GroupName}}}))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "eve may read", func() bool {
		fresh := &registry.Registry{Client: known.Client}
		ok, err := fresh.May(ctx, gateway.Grant{User: "eve", Namespace: "team"}, gateway.Get, "digits")
		return ok && err == nil
	})
	for _, c := range []struct {
		namespace string
		verb      gateway.Verb
		want      bool
	}{{"team", gateway.Get, true}, {"team", gateway.Update, false}, {"team", gateway.List, false}, {"other", gateway.Get, false}} {
		if ok, err := known.May(ctx, gateway.Grant{User: "eve", Namespace: c.namespace}, c.verb, "digits"); ok != c.want || err != nil {
			t.Errorf("%s in %s: %v, %v", c.verb, c.namespace, ok, err)
		}
	}
}

// serve serves the registry's datasets, and returns a client with the key.
func serve(t *testing.T, known *registry.Registry, store *data.Store, key registry.Key) *minio.Client {
	t.Helper()
	g, err := gateway.New(gateway.Options{Stores: gateway.One{All: store, Uploads: &backend.Memory{}}, Catalog: known, Keyring: known})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- g.Serve(ctx, func(address string) { ready <- address }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-ready:
		made, err := minio.New(strings.TrimPrefix(address, "http://"), &minio.Options{
			Creds: credentials.NewStaticV4(key.ID, key.Secret, ""), Region: gateway.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return made
	case err := <-ended:
		t.Fatal(err)
	}
	return nil
}
