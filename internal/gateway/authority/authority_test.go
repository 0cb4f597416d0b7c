package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var at = client.ObjectKey{Namespace: "muster-system", Name: "muster-gateway-authority"}

// TestAuthority is made once, however many begin at the same time, and signs what
// clients with its bundle trust.
func TestAuthority(t *testing.T) {
	api, now := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), time.Now()
	made := make([]*Authority, 8)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			var err error
			if made[i], err = Open(t.Context(), api, at, now); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(made[0].Bundle()) {
		t.Fatalf("%s is no bundle", made[0].Bundle())
	}
	for _, a := range made {
		if !bytes.Equal(a.Bundle(), made[0].Bundle()) {
			t.Error("there are two authorities")
		}
		public, private, err := a.Issue([]string{"gateway.svc", "127.0.0.1"}, now)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(public, private)
		if err != nil {
			t.Fatal(err)
		}
		for host, want := range map[string]bool{"gateway.svc": true, "127.0.0.1": true, "example.com": false} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); (err == nil) != want {
				t.Errorf("for %s: %v", host, err)
			}
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Add(Life + time.Hour)}); err == nil {
			t.Error("it never ends")
		}
	}
}

func TestNoAuthority(t *testing.T) {
	now := time.Now()
	good, err := begin(at, now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := read(good, now)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := a.Issue([]string{"gateway"}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		public, private []byte
		after           time.Duration
		says            string
	}{
		"good":             {good.Data[corev1.TLSCertKey], good.Data[corev1.TLSPrivateKeyKey], 0, ""},
		"ends soon":        {good.Data[corev1.TLSCertKey], good.Data[corev1.TLSPrivateKeyKey], life - time.Hour, "it ends at"},
		"another's key":    {good.Data[corev1.TLSCertKey], private, 0, "private key does not match"},
		"signs for nobody": {public, private, 0, "it is no authority"},
		"nothing":          {nil, nil, 0, "failed to find any PEM"},
	} {
		s := &corev1.Secret{}
		s.Namespace, s.Name = at.Namespace, at.Name
		s.Data = map[string][]byte{corev1.TLSCertKey: c.public, corev1.TLSPrivateKeyKey: c.private}
		api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(s).Build()
		_, err := Open(t.Context(), api, at, now.Add(c.after))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "delete the Secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
