package shelf

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestBucketOptionsThatMakeNoSense(t *testing.T) {
	for name, o := range map[string]BucketOptions{
		"no scheme":    {Endpoint: "s3.test", Bucket: "b"},
		"a path":       {Endpoint: "https://s3.test/b", Bucket: "b"},
		"a user":       {Endpoint: "https://me:secret@s3.test", Bucket: "b"},
		"no bucket":    {Endpoint: "https://s3.test"},
		"half of keys": {Endpoint: "https://s3.test", Bucket: "b", AccessKey: "a"},
	} {
		if _, err := OpenBucket(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestWhoIsNotLetIn says what to check, and not the keys.
func TestWhoIsNotLetIn(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>`))
	}))
	t.Cleanup(service.Close)
	b, err := OpenBucket(BucketOptions{Endpoint: service.URL, Bucket: "code", Region: "x", AccessKey: "me", SecretKey: "hush-hush"})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(t.Context(), "code/x", 1, strings.NewReader("x"))
	if err == nil || !strings.Contains(err.Error(), "check the access key") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}
