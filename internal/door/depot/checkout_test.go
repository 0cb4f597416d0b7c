package depot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/environment/source"
)

// TestCheckout: a namespace gets what it stored, as it was, and nothing that only another one
// stored.
func TestCheckout(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)", "lib/a.py": "a", "lib/b.py": "", "c": "print(1)"})
	r.send("mine", p, 0, hashes(p)...)
	dst := filepath.Join(t.TempDir(), "out")
	r.must(r.depot.Checkout(t.Context(), "mine", p.Digest(), dst))
	for name, want := range map[string]string{"train.py": "print(1)", "lib/a.py": "a", "lib/b.py": "", "c": "print(1)"} {
		if got, err := os.ReadFile(filepath.Join(dst, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	part := filepath.Join(t.TempDir(), "part")
	r.must(r.depot.CheckoutPart(t.Context(), "mine", p.Digest(), "lib", part))
	if got, err := os.ReadFile(filepath.Join(part, "a.py")); err != nil || string(got) != "a" {
		t.Errorf("%q, %v", got, err)
	}
	if err := r.depot.CheckoutPart(t.Context(), "mine", p.Digest(), "nothing", filepath.Join(t.TempDir(), "x")); !errors.Is(err, source.ErrNoPart) {
		t.Error(err)
	}
	for _, namespace := range []string{"others", "min", "mine2"} {
		for _, path := range []string{".", "lib"} {
			dst := filepath.Join(t.TempDir(), "out")
			if err := r.depot.CheckoutPart(t.Context(), namespace, p.Digest(), path, dst); !errors.Is(err, ErrNotStored) {
				t.Errorf("%s of the code of another namespace: %v", path, err)
			}
			if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a failed checkout left %s", dst)
			}
		}
	}
}

// TestCheckoutOfDamage damages a content: all of the checkout fails, and the same code can be
// stored again.
func TestCheckoutOfDamage(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)", "b.py": "b"})
	r.send("mine", p, 0, hashes(p)...)
	hash := p.Contents()[0].Hash
	blob := filepath.Join(r.dir, filepath.FromSlash(key("mine", blobs, hash)))
	text, err := os.ReadFile(blob)
	r.must(err)
	text[0]++
	r.must(os.WriteFile(blob, text, 0o600))
	dst := filepath.Join(t.TempDir(), "out")
	if err := r.depot.Checkout(t.Context(), "mine", p.Digest(), dst); !errors.Is(err, source.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a part of it was laid out")
	}
	r.has("mine", p, false)
	r.send("mine", p, 0, r.send("mine", p, 1)...)
	r.must(r.depot.Checkout(t.Context(), "mine", p.Digest(), dst))
}

// TestKeep: a script that this program received has the digest that the owner's own upload of it
// would have, counts against the quota, and is stored for that namespace alone.
func TestKeep(t *testing.T) {
	r := newRig(t, Options{Quota: 100})
	script := func(text string) (*source.Parcel, func(source.Content) (io.ReadCloser, error)) {
		file := filepath.Join(t.TempDir(), "train.py")
		r.must(os.WriteFile(file, []byte(text), 0o644))
		p, err := source.FileParcel(file)
		r.must(err)
		return p, func(source.Content) (io.ReadCloser, error) { return os.Open(file) }
	}
	p, open := script("print(1)")
	r.must(r.depot.Keep(t.Context(), "mine", p, open))
	if want := r.code(map[string]string{"train.py": "print(1)"}); p.Digest() != want.Digest() {
		t.Errorf("digest %s, want %s", p.Digest(), want.Digest())
	}
	r.has("mine", p, true)
	r.has("others", p, false)
	r.must(r.depot.Keep(t.Context(), "mine", p, func(source.Content) (io.ReadCloser, error) { return nil, errors.New("nothing is missing") }))
	large, open := script(string(make([]byte, 101)))
	if err := r.depot.Keep(t.Context(), "mine", large, open); !errors.Is(err, ErrQuota) {
		t.Error(err)
	}
	r.has("mine", large, false)
	other, _ := script("print(2)")
	if err := r.depot.Keep(t.Context(), "mine", other, open); !errors.Is(err, ErrInvalid) {
		t.Errorf("a script that changed: %v", err)
	}
	r.has("mine", other, false)
}
