package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestNamesInListingsAreEncoded: a name that XML cannot hold comes back by every kind of listing
// where its encoding is asked for, page by page.
func TestNamesInListingsAreEncoded(t *testing.T) {
	r := newRig(t)
	names := []string{"main/c/a\x01b", "main/c/a b+%", "main/c/ü", "main/c/\x1f/x"}
	for _, name := range names {
		r.put(t, name, "1")
	}
	for _, c := range []struct {
		query string
		words []string
	}{
		{"list-type=2&prefix=main/c/&encoding-type=url", []string{
			"<EncodingType>url</EncodingType>", "<Key>main/c/a%01b</Key>", "<Key>main/c/a%20b%2B%25</Key>", "<Key>main/c/%C3%BC</Key>", "<Key>main/c/%1F/x</Key>", "<Prefix>main/c/</Prefix>",
		}},
		{"list-type=2&prefix=main/c/&delimiter=/&start-after=main/c/%01&encoding-type=url", []string{
			"<StartAfter>main/c/%01</StartAfter>", "<Prefix>main/c/%1F/</Prefix>", "<Delimiter>/</Delimiter>",
		}},
		{"prefix=main/c/&delimiter=b%01&marker=main/c/%02&max-keys=1&encoding-type=url", []string{
			"<EncodingType>url</EncodingType>", "<Delimiter>b%01</Delimiter>", "<Marker>main/c/%02</Marker>", "<NextMarker>main/c/%1F/x</NextMarker>",
		}},
	} {
		status, body := r.ask(t, "GET", "digits?"+c.query, nil)
		if status != 200 {
			t.Errorf("%s: %d %s", c.query, status, body)
		}
		for _, word := range c.words {
			if !strings.Contains(body, word) {
				t.Errorf("%s: no %s in %s", c.query, word, body)
			}
		}
	}
	if _, err := r.client.NewMultipartUpload(t.Context(), "digits", "main/c/u\x01", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	_, body := r.ask(t, "GET", "digits?uploads&prefix=main/c/u%01&key-marker=main/%01&encoding-type=url", nil)
	for _, word := range []string{"<EncodingType>url</EncodingType>", "<Key>main/c/u%01</Key>", "<Prefix>main/c/u%01</Prefix>", "<KeyMarker>main/%01</KeyMarker>"} {
		if !strings.Contains(body, word) {
			t.Errorf("uploads: no %s in %s", word, body)
		}
	}
	// Without the question nothing is encoded, and tokens carry all names to the next page.
	if _, body := r.ask(t, "GET", "digits?list-type=2&prefix=main/c/", nil); !strings.Contains(body, "<Key>main/c/a b+%</Key>") || strings.Contains(body, "EncodingType>url") {
		t.Error(body)
	}
	if got := r.keys(t, "main/c/", ""); len(got) != len(names) {
		t.Errorf("%q", got)
	}
	status, body := r.ask(t, "GET", "digits?list-type=2&continuation-token=%25", nil)
	if status != 400 || !strings.Contains(body, "<Code>InvalidArgument</Code>") {
		t.Errorf("a bad token: %d %s", status, body)
	}
	if status, body = r.ask(t, "GET", "digits?list-type=2&encoding-type=base64", nil); status != 400 || !strings.Contains(body, "InvalidArgument") {
		t.Errorf("another encoding: %d %s", status, body)
	}
}

// TestUnsupportedRequests: a request for a feature that datasets do not have changes nothing.
func TestUnsupportedRequests(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/there", "old")
	for name, c := range map[string]struct {
		header, value, code string
	}{
		"a public ACL":    {"X-Amz-Acl", "public-read", "AccessControlListNotSupported"},
		"a grant":         {"X-Amz-Grant-Read", "id=1", "AccessControlListNotSupported"},
		"encryption":      {"X-Amz-Server-Side-Encryption", "AES256", "NotImplemented"},
		"a key of KMS":    {"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", "k", "NotImplemented"},
		"a client's key":  {"X-Amz-Server-Side-Encryption-Customer-Algorithm", "AES256", "NotImplemented"},
		"a source's key":  {"X-Amz-Copy-Source-Server-Side-Encryption-Customer-Algorithm", "AES256", "NotImplemented"},
		"a lock":          {"X-Amz-Object-Lock-Mode", "GOVERNANCE", "NotImplemented"},
		"a legal hold":    {"X-Amz-Object-Lock-Legal-Hold", "ON", "NotImplemented"},
		"a tag":           {"X-Amz-Tagging", "a=b", "NotImplemented"},
		"a redirect":      {"X-Amz-Website-Redirect-Location", "/x", "NotImplemented"},
		"an encoding":     {"Content-Encoding", "gzip", "NotImplemented"},
		"an ACL in words": {"x-amz-acl", "authenticated-read", "AccessControlListNotSupported"},
	} {
		t.Run(name, func(t *testing.T) {
			for what, send := range map[string]func(map[string]string) (int, string){
				"a put": func(h map[string]string) (int, string) { return r.send(t, "PUT", "digits/main/there", h, "new") },
				"an upload in parts": func(h map[string]string) (int, string) {
					return r.send(t, "POST", "digits/main/there?uploads", h, "")
				},
				"a copy": func(h map[string]string) (int, string) {
					h["X-Amz-Copy-Source"] = "digits/main/there"
					return r.send(t, "PUT", "digits/main/copy", h, "")
				},
			} {
				status, body := send(map[string]string{c.header: c.value})
				if status < 400 || !strings.Contains(body, "<Code>"+c.code+"</Code>") {
					t.Errorf("%s: %d %s", what, status, body)
				}
			}
			if got := r.get(t, "main/there"); got != "old" {
				t.Errorf("it is %q", got)
			}
		})
	}
	status, body := r.send(t, "PUT", "digits/main/there?x-amz-acl=public-read", nil, "new")
	if status != 400 || !strings.Contains(body, "AccessControlListNotSupported") {
		t.Errorf("an ACL in the query: %d %s", status, body)
	}
	for _, what := range []string{"private", "bucket-owner-full-control"} { // as it is anyway
		if status, body := r.send(t, "PUT", "digits/main/fine", map[string]string{"X-Amz-Acl": what}, "new"); status != 200 {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
}

// TestSignatureVersion2: the refusal names the version to use.
func TestSignatureVersion2(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/f", "1")
	signed := url.Values{"AWSAccessKeyId": {"ALICE"}, "Signature": {"c2ln"}, "Expires": {"2000000000"}}
	for name, change := range map[string]func(*http.Request){
		"a presigned URL": func(q *http.Request) { q.URL.RawQuery = signed.Encode() },
		"a header":        func(q *http.Request) { q.Header.Set("Authorization", "AWS ALICE:c2ln") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address+"/digits/main/f", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		status, _, body := plain(t, req)
		if status != 400 || !strings.Contains(body, "<Code>InvalidRequest</Code>") || !strings.Contains(body, "AWS4-HMAC-SHA256") || !strings.Contains(body, "signature_version=") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestHeadersOfAnAnswerAreSingle: also those of answers with an error.
func TestHeadersOfAnAnswerAreSingle(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/f", "1")
	link, err := r.client.PresignHeader(t.Context(), http.MethodGet, "digits", "main/f", 1e11, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{link.String(), r.address + "/digits/main/f", r.address + "/digits?encoding-type=x"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		status, header, _ := plain(t, req)
		for name, values := range header {
			if len(values) != 1 && name != "Vary" {
				t.Errorf("%d: %s is %q", status, name, values)
			}
		}
		if header.Get("X-Amz-Request-Id") == "" {
			t.Errorf("%d: there is no request ID", status)
		}
	}
}

// plain sends a request as it is.
func plain(t *testing.T, req *http.Request) (status int, header http.Header, body string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(content)
}
