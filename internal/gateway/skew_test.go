package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// signed is a request for an object, signed (AWS signature v4) by a clock that shows at.
func signed(t *testing.T, address, path string, at time.Time) *http.Request {
	t.Helper()
	in, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(text string) string { s := sha256.Sum256([]byte(text)); return hex.EncodeToString(s[:]) }
	date, day := at.UTC().Format("20060102T150405Z"), at.UTC().Format("20060102")
	scope, headers := day+"/"+Region+"/s3/aws4_request", "host;x-amz-content-sha256;x-amz-date"
	canonical := fmt.Sprintf("GET\n%s\n\nhost:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n\n%s\n%s", path, in.URL.Host, sum(""), date, headers, sum(""))
	key := []byte("AWS4wonderland")
	for _, word := range []string{day, Region, "s3", "aws4_request", "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + sum(canonical)} {
		h := hmac.New(sha256.New, key)
		_, _ = io.WriteString(h, word)
		key = h.Sum(nil)
	}
	in.Header.Set("X-Amz-Date", date)
	in.Header.Set("X-Amz-Content-Sha256", sum(""))
	in.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=ALICE/%s, SignedHeaders=%s, Signature=%x", scope, headers, key))
	return in
}

// TestClocksOfClients: a clock that is wrong by minutes is fine, one by more is refused
// by the name that clients know, so that they can set theirs right.
func TestClocksOfClients(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "one")
	for off, code := range map[time.Duration]string{0: "", 10 * time.Minute: "", -10 * time.Minute: "", 20 * time.Minute: "RequestTimeTooSkewed", -20 * time.Minute: "RequestTimeTooSkewed"} {
		answer, err := http.DefaultClient.Do(signed(t, r.address, "/digits/main/a", time.Now().Add(off)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		good := code == "" && answer.StatusCode == http.StatusOK && string(text) == "one" || code != "" && answer.StatusCode == http.StatusForbidden && strings.Contains(string(text), "<Code>"+code+"</Code>")
		if err != nil || !good {
			t.Errorf("off by %s: %d %s (%v)", off, answer.StatusCode, text, err)
		}
	}
}
