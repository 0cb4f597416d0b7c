package gateway

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/ref"
)

// TestListings shows what a file browser would see.
func TestListings(t *testing.T) {
	r := newRig(t)
	done := r.commit(t, "main", map[string]string{"a/1": "1", "a/2": "2", "a-b": "3", "b/c/d": "4", "z": "5"})
	r.commit(t, "main.old", map[string]string{"a": "6"})
	r.commit(t, "main-x", map[string]string{"a": "7"})
	if err := r.dataset(t).Create(t.Context(), ref.Name{Kind: ref.Tag, Name: "v1"}, "main.old"); err != nil {
		t.Fatal(err)
	}
	commit := done.Commit.ID.String()
	for _, c := range []struct {
		name, prefix, delimiter string
		want                    []string
	}{
		{"versions", "", "/", []string{"main-x/", "main.old/", "main/", "v1/"}},
		{"some versions", "main", "/", []string{"main-x/", "main.old/", "main/"}},
		{"everything", "", "", []string{"main-x/a", "main.old/a", "main/a-b", "main/a/1", "main/a/2", "main/b/c/d", "main/z", "v1/a"}},
		{"a branch", "main/", "/", []string{"main/a-b", "main/a/", "main/b/", "main/z"}},
		{"a folder", "main/a/", "/", []string{"main/a/1", "main/a/2"}},
		{"by beginning", "main/a", "/", []string{"main/a-b", "main/a/"}},
		{"below", "main/b", "", []string{"main/b/c/d"}},
		{"another delimiter", "main/a", "-", []string{"main/a-", "main/a/1", "main/a/2"}},
		{"a commit", commit[:8] + "/a/", "/", []string{commit[:8] + "/a/1", commit[:8] + "/a/2"}},
		{"nothing", "main/x", "/", nil},
		{"no version", "none/", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.keys(t, c.prefix, c.delimiter)
			slices.Sort(got) // of a page, keys come before prefixes
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	v1, err := r.client.ListObjects("digits", "main/", "main/a/", "/", 1)
	if err != nil || len(v1.CommonPrefixes) != 1 || v1.CommonPrefixes[0].Prefix != "main/b/" || v1.NextMarker != "main/b/" {
		t.Errorf("version 1, behind a/: %+v, %v", v1, err)
	}
	buckets, err := r.client.ListBuckets(t.Context())
	if err != nil || len(buckets) != 1 || buckets[0].Name != "digits" {
		t.Errorf("buckets: %v, %v", buckets, err)
	}
}

// TestBehind is the first key that does not begin so.
func TestBehind(t *testing.T) {
	for prefix, want := range map[string]string{"a/": "a0", "a\xff": "b", "\xff": "\xff\xff"} {
		if got := behind(prefix); got != want {
			t.Errorf("%q: %q", prefix, got)
		}
	}
}
