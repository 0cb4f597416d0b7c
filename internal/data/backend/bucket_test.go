package backend_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data/backend"
)

func TestPrefixesThatMakeNoSense(t *testing.T) {
	if _, err := backend.OpenBucket(bucket.Options{Endpoint: "https://s3.test", Bucket: "b"}, "../x"); err == nil {
		t.Error("a prefix that leads up is taken")
	}
}

// answered is one in front of a service that answers as it is told.
func answered(t *testing.T, tries int, answer http.HandlerFunc) *backend.Bucket {
	t.Helper()
	service := httptest.NewServer(answer)
	t.Cleanup(service.Close)
	b, err := backend.OpenBucket(bucket.Options{Endpoint: service.URL, Bucket: "bucket", Region: "x", AccessKey: "me", SecretKey: "hush-hush", Tries: tries}, "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
}

// TestWhatABucketRefuses says what to do about it, and not the keys.
func TestWhatABucketRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		code   string
		want   string
	}{
		"wrong keys": {http.StatusForbidden, "SignatureDoesNotMatch", "check the access key"},
		"no space":   {http.StatusInsufficientStorage, "XMinioStorageFull", "has no room"},
		"no bucket":  {http.StatusNotFound, "NoSuchBucket", "there is no bucket bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			b := answered(t, 1, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				refuse(w, c.status, c.code)
			})
			err := b.Put(t.Context(), "a/x", []byte("x"))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestABucketThatIsBusy is asked again, and in the end it is said that it is.
func TestABucketThatIsBusy(t *testing.T) {
	busy, asked := 2, 0
	b := answered(t, 4, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked++; asked <= busy {
			refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return
		}
		w.Header().Set("ETag", `"x"`)
	})
	if err := b.Put(t.Context(), "a/x", []byte("x")); err != nil || asked != 3 {
		t.Errorf("%d requests: %v", asked, err)
	}
	busy, asked = 100, 0
	if err := b.Put(t.Context(), "a/x", []byte("x")); err == nil || asked != 4 {
		t.Errorf("%d requests: %v", asked, err)
	}
}

// TestAnswersThatBreakOff are asked for again; what is really short is said to be.
func TestAnswersThatBreakOff(t *testing.T) {
	broken, asked := 2, 0
	b := answered(t, 4, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(http.StatusPartialContent)
		if asked <= broken {
			_, _ = w.Write([]byte("0123"))
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("0123456789"))
	})
	into := make([]byte, 10)
	if err := b.ReadAt(t.Context(), "a/x", 0, into); err != nil || string(into) != "0123456789" || asked != 3 {
		t.Errorf("%q after %d requests: %v", into, asked, err)
	}
	broken, asked = 0, 0
	if err := b.ReadAt(t.Context(), "a/x", 0, make([]byte, 11)); !errors.Is(err, backend.ErrShort) || asked != 1 {
		t.Errorf("after %d requests: %v", asked, err)
	}
}

// TestWhatIsPassedOnToABucket is one request with all of its bytes, and none where
// what was passed on breaks off.
func TestWhatIsPassedOnToABucket(t *testing.T) {
	var stored []string
	b := answered(t, 4, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		stored = append(stored, r.Header.Get("X-Amz-Decoded-Content-Length"))
		w.Header().Set("ETag", `"x"`)
	})
	if err := b.PutFrom(t.Context(), "a/x", 10, strings.NewReader("0123456789 and no more")); err != nil || len(stored) != 1 || stored[0] != "10" {
		t.Errorf("stored %q: %v", stored, err)
	}
	gone := errors.New("gone")
	err := b.PutFrom(t.Context(), "a/x", 10, io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(gone)))
	if !errors.Is(err, gone) || len(stored) != 1 {
		t.Errorf("stored %q: %v", stored, err)
	}
	if err := b.PutFrom(t.Context(), "a/x", 10, strings.NewReader("0123")); err == nil || len(stored) != 1 {
		t.Errorf("stored %q: %v", stored, err)
	}
}

// TestNamesBelowAPrefix: what lies beside one another is found by its first part.
func TestNamesBelowAPrefix(t *testing.T) {
	asked := ""
	b := answered(t, 1, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("prefix") + " " + r.URL.Query().Get("delimiter")
		_, _ = io.WriteString(w, `<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>`+
			`<Contents><Key>data/clock</Key><Size>0</Size><LastModified>2006-01-02T15:04:05Z</LastModified></Contents>`+
			`<CommonPrefixes><Prefix>data/ada/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>data/bob/</Prefix></CommonPrefixes></ListBucketResult>`)
	})
	below, err := b.Below("data")
	if err != nil {
		t.Fatal(err)
	}
	found, err := below.Folders(t.Context())
	if err != nil || !slices.Equal(found, []string{"ada", "bob"}) || asked != "data/ /" {
		t.Errorf("%v %q %v", found, asked, err)
	}
	if _, err := b.Below("../x"); err == nil {
		t.Error("a prefix that leads up is taken")
	}
}
