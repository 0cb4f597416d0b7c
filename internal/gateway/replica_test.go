package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

// TestReplicas has two gateways serve the same stores: an upload begins at one and is
// completed at the other, and what one of them was told both have.
func TestReplicas(t *testing.T) {
	w := &world{
		datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}, {"other", "digits"}: {}},
		grants: map[string]Grant{
			"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"},
			"BOB":   {Secret: "builder", Namespace: "other", User: "bob"},
		},
		refused: map[Verb]bool{},
	}
	dir := t.TempDir()
	serveOne := func() *rig {
		stores, err := warehouse.Open(warehouse.Options{Folder: dir, Quota: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return serveFrom(t, w, Options{Stores: stores})
	}
	here, there := serveOne(), serveOne()
	id, err := here.client.NewMultipartUpload(t.Context(), "digits", "main/long", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var parts []minio.CompletePart
	for i, r := range []*rig{here, there} {
		p, err := r.client.PutObjectPart(t.Context(), "digits", "main/long", id, i+1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: p.ETag})
	}
	if _, err := there.client.CompleteMultipartUpload(t.Context(), "digits", "main/long", id, parts, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	here.put(t, "main/a", "of here")
	there.put(t, "main/b", "of there")
	for _, r := range []*rig{here, there} {
		if diff := cmp.Diff([]string{"partpart", "of here", "of there"}, []string{r.get(t, "main/long"), r.get(t, "main/a"), r.get(t, "main/b")}); diff != "" {
			t.Error(diff)
		}
	}
	bob := there.as(t, "BOB", "builder")
	if _, err := bob.StatObject(t.Context(), "digits", "main/a", minio.StatObjectOptions{}); minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		t.Errorf("the dataset of that name of another namespace has it: %v", err)
	}
	long := make([]byte, 5<<20)
	_, err = bob.Client.PutObject(t.Context(), "digits", "main/long", bytes.NewReader(long), int64(len(long)), minio.PutObjectOptions{DisableMultipart: true})
	if got := minio.ToErrorResponse(err); got.Code != "QuotaExceeded" || !strings.Contains(got.Message, "other") {
		t.Errorf("more than the namespace may keep: %v", err)
	}
}

// TestRoomOfParts is what a namespace has for a file: its parts count, and once it is
// complete it takes their room.
func TestRoomOfParts(t *testing.T) {
	w := &world{
		datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}},
		grants:   map[string]Grant{"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"}},
	}
	stores, err := warehouse.Open(warehouse.Options{Folder: t.TempDir(), Quota: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := serveFrom(t, w, Options{Stores: stores})
	id, err := r.client.NewMultipartUpload(t.Context(), "digits", "main/long", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const size = 3 << 20
	one, err := r.client.PutObjectPart(t.Context(), "digits", "main/long", id, 1, bytes.NewReader(make([]byte, size)), size, minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.client.PutObjectPart(t.Context(), "digits", "main/long", id, 2, bytes.NewReader(make([]byte, size)), size, minio.PutObjectPartOptions{})
	if minio.ToErrorResponse(err).Code != "QuotaExceeded" {
		t.Errorf("more parts than there is room for: %v", err)
	}
	if _, err := r.client.CompleteMultipartUpload(t.Context(), "digits", "main/long", id, []minio.CompletePart{{PartNumber: 1, ETag: one.ETag}}, minio.PutObjectOptions{}); err != nil {
		t.Error(err)
	}
}

// TestForgotten namespaces are served again when somebody asks.
func TestForgotten(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "1")
	unused(t, &r.known()[0].leases)
	r.rest(t.Context(), time.Now().Add(2*homeIdle))
	if len(r.homes) != 0 || len(r.places) != 0 || len(r.lanes) != 0 || len(r.views) != 0 {
		t.Errorf("%d homes, %d places, %d lanes and %d views are kept", len(r.homes), len(r.places), len(r.lanes), len(r.views))
	}
	r.put(t, "main/b", "2")
	if got := r.get(t, "main/a") + r.get(t, "main/b"); got != "12" {
		t.Error(got)
	}
}

// TestNotForgotten is a namespace where somebody writes for longer than that: it stays
// until then, and no lease stays behind, whoever takes one late.
func TestNotForgotten(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "1")
	leases := func() (n int) {
		if err := r.bytes.List(t.Context(), "leases/", func(backend.Info) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	home, later := r.known()[0], time.Now().Add(2*homeIdle)
	unused(t, &home.leases) // who put is told before the lane has given it back
	lease, err := home.leases.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.rest(t.Context(), later); r.homes["team"] != home || leases() != 1 {
		t.Errorf("it was forgotten while somebody writes, or its leases are %d", leases())
	}
	home.leases.give(t.Context(), lease)
	if r.rest(t.Context(), later); r.homes["team"] != nil || leases() != 0 {
		t.Errorf("it is kept, or %d leases are", leases())
	}
	if lease, err = home.leases.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if home.leases.give(t.Context(), lease); leases() != 0 {
		t.Errorf("who came late left %d leases", leases())
	}
}

// unused waits until nobody uses the lease.
func unused(t *testing.T, l *leases) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; runtime.Gosched() {
		l.mu.Lock()
		users := l.now.users
		l.mu.Unlock()
		if users == 0 {
			return
		}
		if time.Now().After(late) {
			t.Fatal("the lease is used still")
		}
	}
}

// TestTLS is served by a certificate, and by another one once that takes its place.
func TestTLS(t *testing.T) {
	shown := &Certificate{}
	first, second := x509.NewCertPool(), x509.NewCertPool()
	use(t, shown, first)
	r := newRigWith(t, Options{Certificate: shown})
	ask := func(roots *x509.CertPool) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		defer transport.CloseIdleConnections()
		c, err := minio.New(strings.TrimPrefix(r.address, "https://"), &minio.Options{
			Creds: credentials.NewStaticV4("ALICE", "wonderland", ""), Secure: true, Transport: transport, Region: Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		})
		if err != nil {
			return err
		}
		if _, err := c.PutObject(t.Context(), "digits", "main/a", strings.NewReader("one"), 3, minio.PutObjectOptions{}); err != nil {
			return err
		}
		o, err := c.GetObject(t.Context(), "digits", "main/a", minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		_, err = io.ReadAll(o)
		return err
	}
	if err := ask(first); err != nil {
		t.Error(err)
	}
	use(t, shown, second)
	if err := ask(second); err != nil {
		t.Error(err)
	}
	if err := ask(first); err == nil {
		t.Error("a client that trusts another certificate was served")
	}
}

// use makes a certificate that a gateway shows and a pool trusts.
func use(t *testing.T, shown *Certificate, trusted *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: loopback, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := shown.Use(public, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})); err != nil {
		t.Fatal(err)
	}
	trusted.AppendCertsFromPEM(public)
}
