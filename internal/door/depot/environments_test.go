package depot

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/environment/bundle"
	"github.com/muster-dev/muster/internal/environment/source"
)

var aKey = strings.Repeat("e5", 32)

// packed is what is said of an environment with a content.
func packed(content string) bundle.Packed {
	sum := sha256.Sum256([]byte(content))
	return bundle.Packed{Note: bundle.Note{Python: "3.13.1", SearchPath: "/usr/bin"}, Hash: hex.EncodeToString(sum[:]), Size: int64(len(content))}
}

// keeps sends an environment of which something is said.
func (r *rig) keeps(namespace string, p bundle.Packed, content string) error {
	r.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	text, err := json.Marshal(p)
	r.must(err)
	for _, e := range []struct{ name, data string }{{bundle.PackedName, string(text)}, {bundle.TarName, content}} {
		r.must(w.WriteHeader(&tar.Header{Name: e.name, Typeflag: tar.TypeReg, Size: int64(len(e.data)), Mode: 0o600}))
		_, err := io.WriteString(w, e.data)
		r.must(err)
	}
	r.must(w.Close())
	return r.depot.ReceiveEnvironment(r.Context(), namespace, aKey, &out)
}

// environment reads one.
func (r *rig) environment(namespace string) (string, error) {
	r.Helper()
	p, err := r.depot.Environment(r.Context(), namespace, aKey)
	if err != nil {
		return "", err
	}
	in, err := r.depot.OpenEnvironment(r.Context(), namespace, aKey, p)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(in)
	r.must(in.Close())
	return string(text), err
}

func TestEnvironments(t *testing.T) {
	r := newRig(t, Options{})
	if _, err := r.environment("ada"); !errors.Is(err, ErrNotStored) {
		t.Errorf("before: %v", err)
	}
	r.must(r.keeps("ada", packed("content"), "content"))
	if text, err := r.environment("ada"); text != "content" || err != nil {
		t.Errorf("it is %q, %v", text, err)
	}
	if _, err := r.environment("bob"); !errors.Is(err, ErrNotStored) {
		t.Errorf("in another namespace: %v", err)
	}
	if _, err := r.depot.Environment(t.Context(), "ada", "../../x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("of no key: %v", err)
	}
}

func TestEnvironmentsThatAreNot(t *testing.T) {
	r := newRig(t, Options{Quota: 100})
	if err := r.keeps("ada", packed("content"), "another"); !errors.Is(err, ErrInvalid) {
		t.Errorf("another content: %v", err)
	}
	large := strings.Repeat("x", 101)
	if err := r.keeps("ada", packed(large), large); !errors.Is(err, ErrQuota) {
		t.Errorf("beyond the quota: %v", err)
	}
	if _, err := r.environment("ada"); !errors.Is(err, ErrNotStored) {
		t.Errorf("something was stored: %v", err)
	}
	// Together with others of the namespace.
	half := strings.Repeat("x", 60)
	r.must(r.keeps("ada", packed(half), half))
	r.depot.recount("ada")
	if err := r.keeps("ada", packed(half), half); !errors.Is(err, ErrQuota) {
		t.Errorf("twice: %v", err)
	}
	// Damaged on disk: nobody gets it, and it is to be built again.
	r.must(os.WriteFile(filepath.Join(r.dir, environmentKey("ada", bundles, aKey)), []byte(strings.Repeat("y", 60)), 0o600))
	if _, err := r.environment("ada"); !errors.Is(err, source.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
	if _, err := r.environment("ada"); !errors.Is(err, ErrNotStored) {
		t.Errorf("after that: %v", err)
	}
}

func TestOldEnvironments(t *testing.T) {
	r := newRig(t, Options{})
	for _, namespace := range []string{"ada", "bob", "eve"} {
		r.must(r.keeps(namespace, packed("content"), "content"))
	}
	r.age(15 * 24 * time.Hour)
	if _, err := r.environment("bob"); err != nil { // which is use
		t.Fatal(err)
	}
	pruned, err := r.depot.Prune(t.Context(), func(namespace, name string) bool { return namespace == "ada" && name == aKey })
	if err != nil || pruned.Environments != 1 || pruned.Bytes != 7 {
		t.Errorf("%+v, %v", pruned, err)
	}
	for namespace, there := range map[string]bool{"ada": true, "bob": true, "eve": false} {
		if _, err := r.environment(namespace); (err == nil) != there {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}
