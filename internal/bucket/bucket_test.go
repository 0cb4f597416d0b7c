package bucket

import (
	"bytes"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestEmptyObjects are sent as nothing: not as the end of a row of signed chunks.
func TestEmptyObjects(t *testing.T) {
	var sent []string
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil || in.Method != http.MethodPut {
			t.Errorf("%s %v", in.Method, err)
		}
		sent = append(sent, in.Header.Get("X-Amz-Content-Sha256")+" "+string(body))
	}))
	t.Cleanup(service.Close)
	c, err := Open(Options{Endpoint: service.URL, Bucket: "digits", Region: "us-east-1", AccessKey: "a", SecretKey: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), "empty", bytes.NewReader(nil), 0, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 1 || sent[0] != emptySum+" " {
		t.Errorf("sent: %q", sent)
	}
}

// A bucket is believed by the authorities that are named, and by no others.
func TestAuthorities(t *testing.T) {
	service := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(service.Close)
	ours := x509.NewCertPool()
	ours.AddCert(service.Certificate())
	for name, pool := range map[string]*x509.CertPool{"ours": ours, "others": x509.NewCertPool(), "": nil} {
		c, err := Open(Options{Endpoint: service.URL, Bucket: "digits", Region: "us-east-1", AccessKey: "a", SecretKey: "b", Tries: 1, Authorities: pool})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Put(t.Context(), "key", strings.NewReader("x"), 1, minio.PutObjectOptions{})
		if (err == nil) != (name == "ours") || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, o := range map[string]Options{
		"no scheme":    {Endpoint: "s3.test", Bucket: "b"},
		"a path":       {Endpoint: "https://s3.test/b", Bucket: "b"},
		"a user":       {Endpoint: "https://me:secret@s3.test", Bucket: "b"},
		"no bucket":    {Endpoint: "https://s3.test"},
		"half of keys": {Endpoint: "https://s3.test", Bucket: "b", AccessKey: "a"},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
