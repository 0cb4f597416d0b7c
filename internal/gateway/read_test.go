package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestWhatIsPutIsRead puts objects and reads them at once, by branch, tag and commit.
func TestWhatIsPutIsRead(t *testing.T) {
	r := newRig(t)
	tag := r.put(t, "main/a/one.txt", "one")
	r.put(t, "main/a/two.txt", "two")
	r.put(t, "main/empty", "")
	long := strings.Repeat("0123456789", 200_000)
	r.put(t, "main/long.bin", long)
	if again := r.put(t, "main/b/one.txt", "one"); again != tag {
		t.Errorf("the same bytes have the tags %s and %s", tag, again)
	}
	d := r.dataset(t)
	if err := d.Create(t.Context(), ref.Name{Kind: ref.Tag, Name: "v1"}, "main"); err != nil {
		t.Fatal(err)
	}
	c, err := d.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "main/a/one.txt", "another")
	for _, x := range []struct{ key, want string }{
		{"main/a/one.txt", "another"}, {"main/a/two.txt", "two"}, {"main/empty", ""}, {"main/long.bin", long},
		{"v1/a/one.txt", "one"}, {c.ID.String() + "/a/one.txt", "one"}, {c.ID.String()[:10] + "/a/one.txt", "one"}, {"main~1/a/one.txt", "one"},
		{"main/a", "NoSuchKey 404: The specified key does not exist."}, {"next/a/one.txt", "NoSuchKey 404: The specified key does not exist."},
		{"main/a/none", "NoSuchKey 404: The specified key does not exist."},
	} {
		if got := r.get(t, x.key); got != x.want {
			t.Errorf("%s: %.200s", x.key, got)
		}
	}
	log := 0
	if err := d.Log(t.Context(), "main", func(commit.Commit) error { log++; return nil }); err != nil || log != 6 {
		t.Errorf("%d commits, %v", log, err)
	}
}

// TestOthersCommits are seen, at once where the gateway would say that there is
// nothing.
func TestOthersCommits(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "1")
	r.commit(t, "main", map[string]string{"b": "2"})
	if got := r.get(t, "main/b"); got != "2" {
		t.Error(got)
	}
	r.commit(t, "next", map[string]string{"c": "3"})
	if got := r.get(t, "next/c"); got != "3" {
		t.Error(got)
	}
	// A put goes on top of what others did meanwhile.
	r.commit(t, "main", map[string]string{"d": "4"})
	r.put(t, "main/e", "5")
	for key, want := range map[string]string{"main/a": "1", "main/b": "2", "main/d": "4", "main/e": "5"} {
		if got := r.get(t, key); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
}

// TestAnothersCommit is not shown, even to those who know its name.
func TestAnothersCommit(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "1")
	store, err := data.Open(t.Context(), data.Options{Backend: r.bytes})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	secret, err := store.Dataset(r.datasets[placeName{"other", "secrets"}]).Put(t.Context(), "main", data.Contents([]data.Content{{Path: "a", Bytes: []byte("secret")}}), data.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{secret.Commit.ID.String(), secret.Commit.ID.String()[:8]} {
		if got := r.get(t, name+"/a"); !strings.HasPrefix(got, "NoSuchKey") {
			t.Error(got)
		}
	}
}

// TestRangesAndConditions asks as HTTP clients do.
func TestRangesAndConditions(t *testing.T) {
	r := newRig(t)
	tag := r.put(t, "main/a", "0123456789")
	info, err := r.client.StatObject(t.Context(), "digits", "main/a", minio.StatObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{int64(10), tag, "application/octet-stream"}, []any{info.Size, info.ETag, info.ContentType}); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		name   string
		set    map[string]string
		want   string
		status int
	}{
		{"all", nil, "0123456789", 200},
		{"the middle", map[string]string{"Range": "bytes=2-4"}, "234", 206},
		{"from", map[string]string{"Range": "bytes=7-"}, "789", 206},
		{"the end", map[string]string{"Range": "bytes=-2"}, "89", 206},
		{"too long", map[string]string{"Range": "bytes=8-100"}, "89", 206},
		{"behind the end", map[string]string{"Range": "bytes=10-"}, "InvalidRange", 416},
		{"if it is this", map[string]string{"If-Match": `"` + tag + `"`}, "0123456789", 200},
		{"if it is another", map[string]string{"If-Match": `"other"`}, "PreconditionFailed", 412},
		{"if it is not this", map[string]string{"If-None-Match": `"` + tag + `"`}, "", 304},
		{"if it is not another", map[string]string{"If-None-Match": `"other"`}, "0123456789", 200},
		{"modified since", map[string]string{"If-Modified-Since": info.LastModified.Format(http.TimeFormat)}, "", 304},
		{"modified since long", map[string]string{"If-Modified-Since": info.LastModified.Add(-time.Hour).Format(http.TimeFormat)}, "0123456789", 200},
		{"unmodified since", map[string]string{"If-Unmodified-Since": info.LastModified.Format(http.TimeFormat)}, "0123456789", 200},
		{"unmodified since long", map[string]string{"If-Unmodified-Since": info.LastModified.Add(-time.Hour).Format(http.TimeFormat)}, "PreconditionFailed", 412},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := r.ask(t, http.MethodGet, "digits/main/a", c.set)
			if status != c.status || !strings.Contains(body, c.want) || c.want == "" && body != "" {
				t.Errorf("%d: %s", status, body)
			}
			if head, _ := r.ask(t, http.MethodHead, "digits/main/a", c.set); head != c.status {
				t.Errorf("HEAD: %d", head)
			}
		})
	}
}

// TestLinks are followed within their commit.
func TestLinks(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"data/a": "1", "data/link@": "../data/a", "folder@": "data", "loop@": "loop", "lost@": "nothing", "over@": "data/link", "slash@": "data/a/", "behind@": "data/link/"})
	if _, err := r.dataset(t).Put(t.Context(), "main", data.Folder(dir), data.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.get(t, "main/data/link"); got != "1" {
		t.Error(got)
	}
	for _, key := range []string{"main/folder", "main/loop", "main/lost", "main/slash", "main/behind"} {
		if got := r.get(t, key); !strings.HasPrefix(got, "NoSuchKey") {
			t.Errorf("%s: %s", key, got)
		}
	}
	if diff := cmp.Diff([]string{"main/data/a", "main/data/link", "main/over"}, r.keys(t, "main/", "")); diff != "" {
		t.Error(diff)
	}
}

// TestChainsOfLinks are followed as far as the kernel follows them.
func TestChainsOfLinks(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	tree := map[string]string{"end": "1"}
	for i := range 45 {
		tree[fmt.Sprintf("l%d@", i)] = fmt.Sprintf("l%d", i+1)
	}
	tree["l44@"] = "end"
	writeTree(t, dir, tree)
	if _, err := r.dataset(t).Put(t.Context(), "main", data.Folder(dir), data.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	read := 0
	for i := range 45 {
		want, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("l%d", i)))
		got := r.get(t, fmt.Sprintf("main/l%d", i))
		if err == nil && got != string(want) || err != nil && !strings.HasPrefix(got, "NoSuchKey") {
			t.Errorf("l%d is %q, and %q, %v in a folder", i, got, want, err)
		}
		if err == nil {
			read++
		}
	}
	if read == 0 || read == 45 {
		t.Errorf("the kernel follows %d of the links", read)
	}
}

// TestWindingLinks: one listing looks up a bounded number of entries.
func TestWindingLinks(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	tree := map[string]string{"end": "1", "d/x": "2", "e": "3"}
	for i := range 45 {
		tree[fmt.Sprintf("l%02d@", i)] = strings.Repeat("d/../", 800) + fmt.Sprintf("l%02d", i+1)
	}
	tree["l44@"] = "end"
	writeTree(t, dir, tree)
	if _, err := r.dataset(t).Put(t.Context(), "main", data.Folder(dir), data.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.get(t, "main/l40"); got != "1" {
		t.Errorf("a few links: %s", got)
	}
	if got := r.get(t, "main/l10"); !strings.Contains(got, "too many links") {
		t.Errorf("many links: %s", got)
	}
	_, err := r.client.ListObjectsV2("digits", "main/", "", "", "", 1000)
	if err == nil || !strings.Contains(err.Error(), "too many links") {
		t.Errorf("a listing: %v", err)
	}
	if got := r.keys(t, "main/e", ""); len(got) != 2 {
		t.Errorf("a listing without these links: %v", got)
	}
}
