package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

// TestRefused is what cannot be written, in words.
func TestRefused(t *testing.T) {
	r := newRig(t)
	done := r.commit(t, "main", map[string]string{"file": "1", "folder/a": "2"})
	if err := r.dataset(t).Create(t.Context(), ref.Name{Kind: ref.Tag, Name: "v1"}, "main"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, key string
		headers   map[string]string
		body      string
		status    int
		says      string
	}{
		{"a tag", "v1/a", nil, "x", 400, "v1 is a tag, and does not move"},
		{"a commit", done.Commit.ID.String()[:8] + "/a", nil, "x", 400, "is a commit, and never changes"},
		{"the one before", "main~1/a", nil, "x", 400, "is a commit, and never changes"},
		{"no branch", "nxt/a", nil, "x", 400, "dataset digits has no branch nxt: muster data branch digits nxt makes one"},
		{"no version", "a", nil, "x", 400, "names no version"},
		{"up", "main/a/../b", nil, "x", 400, ""},
		{"out", "main/../../b", nil, "x", 400, ""},
		{"two slashes", "main/a//b", nil, "x", 400, "has an empty part"},
		{"a NUL", "main/a%00b", nil, "x", 400, ""},
		{"too long", "main/" + strings.Repeat("abcdefgh/", 120), nil, "x", 400, "at most 1024"},
		{"a part too long", "main/" + strings.Repeat("a", 256), nil, "x", 400, "at most 255"},
		{"a folder", "main/folder", nil, "x", 409, "is a folder: remove what is below it first"},
		{"below a file", "main/file/a", nil, "x", 409, "is a file, so that nothing can be below it"},
		{"a folder with bytes", "main/new/", nil, "x", 400, "a folder has no bytes"},
		{"tags", "main/a", map[string]string{"X-Amz-Tagging": "a=b"}, "x", 501, "a tag is not kept"},
		{"encoding", "main/a", map[string]string{"Content-Encoding": "gzip"}, "x", 501, "Content-Encoding (gzip) is not kept"},
		{"less than nothing", "main/a", map[string]string{"X-Amz-Decoded-Content-Length": "-5"}, "x", 400, "cannot be"},
		{"a wrong sum", "main/a", map[string]string{"X-Amz-Checksum-Crc32": "AAAAAA=="}, "x", 400, "checksum"},
		{"a wrong MD5", "main/a", map[string]string{"Content-Md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, "x", 400, "Content-MD5"},
		{"only if new", "main/file", map[string]string{"If-None-Match": "*"}, "x", 412, "PreconditionFailed"},
		{"only if it is this", "main/file", map[string]string{"If-Match": `"other"`}, "x", 412, "PreconditionFailed"},
		{"only if it is there", "main/none", map[string]string{"If-Match": `"other"`}, "x", 404, "NoSuchKey"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := r.send(t, http.MethodPut, "digits/"+c.key, c.headers, c.body)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%d: %s", status, body)
			}
		})
	}
	if status, _ := r.send(t, http.MethodPut, "digits/main/marker/", nil, ""); status != 200 {
		t.Errorf("an empty folder: %d", status)
	}
	if status, body := r.send(t, http.MethodPut, "nosuch/main/a", nil, "x"); status != 404 || !strings.Contains(body, "NoSuchBucket") {
		t.Errorf("no dataset: %d: %s", status, body)
	}
	if status, body := r.send(t, http.MethodPut, "secrets/main/a", nil, "x"); status != 404 || !strings.Contains(body, "NoSuchBucket") {
		t.Errorf("another namespace's dataset: %d: %s", status, body)
	}
	if status, body := r.send(t, http.MethodPut, "newone", nil, ""); status != 501 || !strings.Contains(body, "muster data create newone") {
		t.Errorf("a new bucket: %d: %s", status, body)
	}
	if at, err := r.dataset(t).Resolve(t.Context(), "main"); err != nil || at.ID != done.Commit.ID {
		t.Errorf("the branch is at %v, %v", at.ID, err)
	}
}

// TestWhoMay asks with wrong keys, and without rights.
func TestWhoMay(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "1")
	for name, client := range map[string]*minio.Core{"SignatureDoesNotMatch": r.as(t, "ALICE", "looking-glass"), "InvalidAccessKeyId": r.as(t, "BOB", "wonderland")} {
		if _, err := client.ListBuckets(t.Context()); minio.ToErrorResponse(err).Code != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
	answer, err := http.Get(r.address + "/digits/main/a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("nobody: %s", answer.Status)
	}
	r.world.mu.Lock()
	r.refused[Update] = true
	r.world.mu.Unlock()
	if status, body := r.send(t, http.MethodPut, "digits/main/a", nil, "2"); status != 403 || !strings.Contains(body, "alice may not update dataset digits in namespace team") {
		t.Errorf("%d: %s", status, body)
	}
	if got := r.get(t, "main/a"); got != "1" {
		t.Error(got)
	}
	r.world.mu.Lock()
	r.refused[Get] = true
	r.world.mu.Unlock()
	if status, body := r.ask(t, http.MethodGet, "digits/main/a", nil); status != 403 || !strings.Contains(body, "alice may not get") {
		t.Errorf("%d: %s", status, body)
	}
}

// TestTogether puts many at once: they share commits, none is lost, and of those who
// want a path only if it is new one gets it.
func TestTogether(t *testing.T) {
	r := newRig(t)
	const clients, each = 16, 10
	var wins sync.Map
	var work sync.WaitGroup
	for c := range clients {
		work.Go(func() {
			for i := range each {
				content := fmt.Sprint(c, " ", i)
				if _, err := r.client.Client.PutObject(t.Context(), "digits", fmt.Sprintf("main/%d/%d", c, i), strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
					t.Error(err)
				}
				o := minio.PutObjectOptions{}
				o.SetMatchETagExcept("*")
				_, err := r.client.Client.PutObject(t.Context(), "digits", fmt.Sprintf("main/once/%d", i), strings.NewReader(content), int64(len(content)), o)
				if err == nil {
					if other, there := wins.LoadOrStore(i, content); there {
						t.Errorf("%d was new for %s and for %s", i, content, other)
					}
				} else if minio.ToErrorResponse(err).StatusCode != http.StatusPreconditionFailed {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	for c := range clients {
		for i := range each {
			if got, want := r.get(t, fmt.Sprintf("main/%d/%d", c, i)), fmt.Sprint(c, " ", i); got != want {
				t.Errorf("%d/%d: %s", c, i, got)
			}
		}
	}
	for i := range each {
		want, _ := wins.Load(i)
		if got := r.get(t, fmt.Sprintf("main/once/%d", i)); got != want {
			t.Errorf("once/%d: %s, and %s was told that it is there", i, got, want)
		}
	}
	commits := 0
	if err := r.dataset(t).Log(t.Context(), "main", func(commit.Commit) error { commits++; return nil }); err != nil {
		t.Fatal(err)
	}
	if commits > clients*each/2 {
		t.Errorf("%d commits of %d changes", commits, clients*each+each)
	}
}

// TestRemoveAndCopy removes and copies, singly and many.
func TestRemoveAndCopy(t *testing.T) {
	r := newRig(t)
	r.commit(t, "main", map[string]string{"a": "1", "b/c": "2", "b/d": "3", "e": "4"})
	r.commit(t, "next", map[string]string{"z": "5"})
	tag := r.put(t, "main/a", "one")
	copied, err := r.client.Client.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: "digits", Object: "next/copy"}, minio.CopySrcOptions{Bucket: "digits", Object: "main/a"})
	if err != nil || copied.ETag != tag {
		t.Errorf("%v, %v, want the tag %s", copied.ETag, err, tag)
	}
	if got := r.get(t, "next/copy"); got != "one" {
		t.Error(got)
	}
	if err := r.client.RemoveObject(t.Context(), "digits", "main/a", minio.RemoveObjectOptions{}); err != nil {
		t.Error(err)
	}
	if err := r.client.RemoveObject(t.Context(), "digits", "main/never", minio.RemoveObjectOptions{}); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	objects := make(chan minio.ObjectInfo, 5)
	for _, key := range []string{"main/b/c", "main/b/d", "main/none", "next/z", "v9/a"} {
		objects <- minio.ObjectInfo{Key: key}
	}
	close(objects)
	var refused []string
	for e := range r.client.RemoveObjects(t.Context(), "digits", objects, minio.RemoveObjectsOptions{}) {
		refused = append(refused, e.ObjectName)
	}
	if diff := cmp.Diff([]string{"v9/a"}, refused); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"main/e", "next/copy"}, r.keys(t, "", "")); diff != "" {
		t.Error(diff)
	}
}

// TestRemoveIf removes objects only if they are those that a client has seen.
func TestRemoveIf(t *testing.T) {
	r := newRig(t)
	r.commit(t, "main", map[string]string{"kept": "1"})
	tag := r.put(t, "main/a", "one")
	r.put(t, "main/b", "two")
	for _, c := range []struct {
		name, object string
		refused      string
	}{
		{"another content", "<Key>main/kept</Key><ETag>&quot;other&quot;</ETag>", "PreconditionFailed"},
		{"another size", "<Key>main/kept</Key><Size>2</Size>", "PreconditionFailed"},
		{"another time", "<Key>main/kept</Key><LastModifiedTime>2001-01-01T00:00:00Z</LastModifiedTime>", "PreconditionFailed"},
		{"nothing there", "<Key>main/none</Key><ETag>" + tag + "</ETag>", "NoSuchKey"},
		{"this content", "<Key>main/a</Key><ETag>&quot;" + tag + "&quot;</ETag><Size>3</Size>", ""},
		{"any content", "<Key>main/b</Key><ETag>*</ETag>", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := "<Delete><Object>" + c.object + "</Object></Delete>"
			sum := sha256.Sum256([]byte(body))
			status, answer := r.send(t, http.MethodPost, "digits?delete=", map[string]string{"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(sum[:])}, body)
			if status != 200 || strings.Contains(answer, "<Error>") != (c.refused != "") || !strings.Contains(answer, c.refused) {
				t.Errorf("%d: %s", status, answer)
			}
		})
	}
	if status, answer := r.send(t, http.MethodDelete, "digits/main/kept", map[string]string{"If-Match": `"other"`}, ""); status != 412 {
		t.Errorf("one object: %d: %s", status, answer)
	}
	if diff := cmp.Diff([]string{"main/kept"}, r.keys(t, "", "")); diff != "" {
		t.Error(diff)
	}
	if status, answer := r.send(t, http.MethodDelete, "digits/main/kept", map[string]string{"If-Match": "*"}, ""); status != 204 {
		t.Errorf("one object, whatever it is: %d: %s", status, answer)
	}
}

// TestUploads puts an object in parts, gives one up, and looks at both before.
func TestUploads(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client, t.Context()
	id, err := c.NewMultipartUpload(ctx, "digits", "main/long", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]byte{bytes.Repeat([]byte("a"), 600_000), bytes.Repeat([]byte("b"), 700_000), []byte("end")}
	var done []minio.CompletePart
	for i := len(parts) - 1; i >= 0; i-- {
		p, err := c.PutObjectPart(ctx, "digits", "main/long", id, i+1, bytes.NewReader(parts[i]), int64(len(parts[i])), minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done = append([]minio.CompletePart{{PartNumber: i + 1, ETag: p.ETag}}, done...)
	}
	other, err := c.NewMultipartUpload(ctx, "digits", "main/other", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.ListMultipartUploads(ctx, "digits", "main/", "", "", "", 10)
	if err != nil || len(list.Uploads) != 2 || list.Uploads[0].Key != "main/long" {
		t.Errorf("%+v, %v", list, err)
	}
	there, err := c.ListObjectParts(ctx, "digits", "main/long", id, 1, 1)
	if err != nil || len(there.ObjectParts) != 1 || there.ObjectParts[0].PartNumber != 2 || there.ObjectParts[0].Size != 700_000 || !there.IsTruncated {
		t.Errorf("%+v, %v", there, err)
	}
	if got := r.get(t, "main/long"); !strings.HasPrefix(got, "NoSuchKey") {
		t.Errorf("it is there before it is complete: %.50s", got)
	}
	for name, wrong := range map[string][]minio.CompletePart{
		"InvalidPart":      {done[0], {PartNumber: 2, ETag: done[2].ETag}},
		"InvalidPartOrder": {done[1], done[0]},
	} {
		if _, err := c.CompleteMultipartUpload(ctx, "digits", "main/long", id, wrong, minio.PutObjectOptions{}); minio.ToErrorResponse(err).Code != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.CompleteMultipartUpload(ctx, "digits", "main/long", id, done, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.get(t, "main/long"); got != string(bytes.Join(parts, nil)) {
		t.Errorf("%d bytes came back", len(got))
	}
	if err := c.AbortMultipartUpload(ctx, "digits", "main/other", other); err != nil {
		t.Error(err)
	}
	if _, err := c.PutObjectPart(ctx, "digits", "main/other", other, 1, strings.NewReader("x"), 1, minio.PutObjectPartOptions{}); minio.ToErrorResponse(err).Code != "NoSuchUpload" {
		t.Errorf("a part of what was given up: %v", err)
	}
	r.stop() // which waits for what goes after the answer
	err = r.bytes.List(ctx, warehouse.Uploads, func(i backend.Info) error {
		t.Errorf("left: %s", i.Key)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDamage is named, and nothing of it is served.
func TestDamage(t *testing.T) {
	w := &world{datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}}, grants: map[string]Grant{"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"}}}
	dir := t.TempDir()
	folder := openFolder(t, dir)
	r := serve(t, w, folder)
	content := make([]byte, 100_000)
	for i := range content {
		content[i] = byte(rand.Uint32()) // nothing that could be compressed
	}
	r.put(t, "main/a", string(content))
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, p := range packs {
		content, err := os.ReadFile(p)
		if err == nil {
			content[len(content)/2] ^= 1
			err = os.WriteFile(p, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	status, body := r.ask(t, http.MethodGet, "digits/main/a", nil)
	if status != 500 || !strings.Contains(body, "is damaged") || len(body) > 1000 {
		t.Errorf("%d: %.300s", status, body)
	}
}

// TestStopped ends while many put: each is told how it went, and told the truth.
func TestStopped(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	acknowledged := map[string]string{}
	var work sync.WaitGroup
	for c := range 8 {
		work.Go(func() {
			for i := 0; ; i++ {
				path, content := fmt.Sprintf("%d/%d", c, i), fmt.Sprint(c, i)
				_, err := r.client.Client.PutObject(context.Background(), "digits", "main/"+path, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
				if err != nil {
					return
				}
				mu.Lock()
				acknowledged[path] = content
				if len(acknowledged) == 50 {
					go r.stop()
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	r.stop()
	v, err := r.dataset(t).At(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	for path := range acknowledged {
		if _, err := v.Stat(t.Context(), path); err != nil {
			t.Errorf("%s was acknowledged: %v", path, err)
		}
	}
}
