package shelf

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/bucket"
)

// TestWhoIsNotLetIn says what to check, and not the keys.
func TestWhoIsNotLetIn(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>`))
	}))
	t.Cleanup(service.Close)
	b, err := OpenBucket(bucket.Options{Endpoint: service.URL, Bucket: "code", Region: "x", AccessKey: "me", SecretKey: "hush-hush"})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(t.Context(), "code/x", 1, strings.NewReader("x"))
	if err == nil || !strings.Contains(err.Error(), "check the access key") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}
