package programs

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is installed counts by its version, and what comes from a place of its own by what
// was fetched from there.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	for name, said := range map[string]string{
		"index-1":  "",
		"hashed-1": `{"url": "https://host/x.whl", "archive_info": {"hash": "sha256=a", "hashes": {"sha256": "a"}}}`,
		"hashes-1": `{"url": "https://host/x.whl", "archive_info": {"hashes": {"sha256": "b", "md5": "c"}}}`,
		"cloned-1": `{"url": "https://host/x", "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "d"}}`,
		"placed-1": `{"url": "https://token@host/x.whl", "archive_info": {}}`,
		"broken-1": "{",
	} {
		info := filepath.Join(dir, "lib", "python3.13", "site-packages", name+".dist-info")
		err := os.MkdirAll(info, 0o700)
		if err == nil && said != "" {
			err = os.WriteFile(filepath.Join(info, "direct_url.json"), []byte(said), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := Installed(dir)
	if err != nil {
		t.Fatal(err)
	}
	place := sha256.Sum256([]byte("https://token@host/x.whl"))
	want := []string{"broken-1", "cloned-1 @ d", "hashed-1 @ sha256=a", "hashes-1 @ md5=c", "index-1", "placed-1 @ url=" + hex.EncodeToString(place[:])}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
