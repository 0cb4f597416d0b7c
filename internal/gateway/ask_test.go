package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// ask sends a request as it is, signed, and returns status and body.
func (r *rig) ask(t *testing.T, method, path string, headers map[string]string) (int, string) {
	t.Helper()
	return r.send(t, method, path, headers, "")
}

func (r *rig) send(t *testing.T, method, path string, headers map[string]string, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.address+"/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range headers {
		req.Header.Set(key, value)
	}
	sum := sha256.Sum256([]byte(body))
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	answer, err := http.DefaultClient.Do(signer.SignV4(*req, "ALICE", "wonderland", "", Region))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

// keys are the keys and common prefixes of a listing, all pages of two of it.
func (r *rig) keys(t *testing.T, prefix, delimiter string) []string {
	t.Helper()
	var all []string
	token := ""
	for {
		p, err := r.client.ListObjectsV2("digits", prefix, "", token, delimiter, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Contents {
			all = append(all, o.Key)
		}
		for _, c := range p.CommonPrefixes {
			all = append(all, c.Prefix)
		}
		if !p.IsTruncated {
			return all
		}
		token = p.NextContinuationToken
	}
}

// writeTree writes files below a folder; a name that ends in @ is a link.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, strings.TrimSuffix(name, "@"))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && strings.HasSuffix(name, "@") {
			err = os.Symlink(content, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
