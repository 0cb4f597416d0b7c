//go:build linux

package data

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/osfile/meddler"
)

// TestPutWhileItChanges: a meddler replaces the files by links, pipes, sockets and folders meanwhile,
// or removes them. A put stores the content that a file had, or its error names the changed path.
func TestPutWhileItChanges(t *testing.T) {
	src := t.TempDir()
	files(t, src, map[string]string{"f": meddler.Public, "d/secret": meddler.Public, "e/f": meddler.Public, "steady": meddler.Public})
	p := newPlace(t)
	m := meddler.Start(t, src, "f", "d", "e/f")
	stored := 0
	for n := 0; n < 5_000 && stored < 10; n++ {
		if _, err := p.Put(t.Context(), "main", Folder(src), PutOptions{AddOptions: AddOptions{Replace: true}}); err != nil {
			if !strings.Contains(err.Error(), "/f") && !strings.Contains(err.Error(), "/d") && !strings.Contains(err.Error(), `"d"`) {
				t.Fatalf("it does not name the changed path: %v", err)
			}
			continue
		}
		stored++
		for path, content := range held(t, p.Dataset, "main") {
			if meddler.Leaked(content) {
				t.Fatalf("%s is %.100q", path, content)
			}
		}
	}
	m.Untouched(t)
	if stored == 0 {
		t.Error("nothing was stored: nothing is shown")
	}
}

// TestCheckoutWhileItChanges: a meddler does so where a checkout writes. Files outside stay as they
// are, and the checkout does not wait.
func TestCheckoutWhileItChanges(t *testing.T) {
	p := newPlace(t)
	set(t, p.Dataset, "main", "", map[string]string{"f": "1", "d/secret": "2", "d/e/f": "3", "e/f": strings.Repeat("4", 3<<20)})
	into := t.TempDir()
	files(t, into, map[string]string{"e/f": ""})
	m := meddler.Start(t, into, "f", "d", "e/f")
	v := view(t, p.Dataset, "main")
	for n := range 60 {
		if _, err := v.Checkout(t.Context(), into, CheckoutOptions{Delete: n%2 == 0}); err != nil {
			continue // the error names the path in its way
		}
	}
	m.Untouched(t)
}
