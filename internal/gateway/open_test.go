package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
)

func (r *rig) openCommit(t *testing.T) {
	t.Helper()
	if _, err := r.dataset(t).OpenCommit(t.Context(), "main", "ada"); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) closeCommit(t *testing.T, o data.CloseOptions) data.CloseResult {
	t.Helper()
	o.Branch = "main"
	done, err := r.dataset(t).CloseCommit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// held is what the branch main has for everybody else.
func (r *rig) held(t *testing.T) map[string]string {
	t.Helper()
	v, err := r.dataset(t).At(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = v.Walk(t.Context(), "", func(e data.Entry) error {
		f, err := v.Open(t.Context(), e.Path)
		if err != nil {
			return err
		}
		content := make([]byte, e.Size)
		_, err = f.ReadAt(content, 0)
		got[e.Path] = string(content)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (r *rig) commits(t *testing.T) (messages []string) {
	t.Helper()
	err := r.dataset(t).Log(t.Context(), "main", func(c commit.Commit) error { messages = append(messages, c.Message); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// TestOpenCommit has clients write while a commit is open: they see it, nobody else does
// before it is closed, and then it is one commit.
func TestOpenCommit(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "old")
	r.put(t, "main/b", "old")
	r.openCommit(t)
	long := strings.Repeat("long", 200<<10)
	r.put(t, "main/a", "new")
	r.put(t, "main/dir/long", long)
	r.put(t, "main/c", "1")
	if err := r.client.RemoveObject(t.Context(), "digits", "main/b", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	o := minio.PutObjectOptions{}
	o.SetMatchETagExcept("*")
	_, err := r.client.Client.PutObject(t.Context(), "digits", "main/c", strings.NewReader("2"), 1, o)
	if got := minio.ToErrorResponse(err).Code; got != "PreconditionFailed" {
		t.Errorf("put where something is in the open commit: %v", err)
	}
	if diff := cmp.Diff([]string{"new", "1", "NoSuchKey 404"}, []string{r.get(t, "main/a"), r.get(t, "main/c"), r.get(t, "main/b")[:13]}); diff != "" {
		t.Error(diff)
	}
	var keys []string
	for o := range r.client.Client.ListObjects(t.Context(), "digits", minio.ListObjectsOptions{Recursive: true}) {
		keys = append(keys, o.Key)
	}
	if diff := cmp.Diff([]string{"main/a", "main/c", "main/dir/long"}, keys); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "old", "b": "old"}, r.held(t)); diff != "" {
		t.Errorf("others see %s", diff)
	}
	before := r.commits(t)
	r.closeCommit(t, data.CloseOptions{Message: "all of it"})
	want := map[string]string{"a": "new", "c": "1", "dir/long": long}
	if diff := cmp.Diff(want, r.held(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append([]string{"all of it"}, before...), r.commits(t)); diff != "" {
		t.Error(diff)
	}
	r.put(t, "main/d", "3") // the gateway has not heard that it is closed
	if got := r.held(t)["d"]; got != "3" {
		t.Errorf("what was put after it was closed is %q", got)
	}
}

// TestPutThatBeganBeforeTheCommitWasOpened goes to the open commit, and its condition is
// asked of that.
func TestPutThatBeganBeforeTheCommitWasOpened(t *testing.T) {
	r := newRig(t)
	r.put(t, "main/a", "1")
	const size = 2 << 20
	body, feed := io.Pipe()
	first := make([]byte, size/2)
	put := make(chan error, 1)
	go func() {
		o := minio.PutObjectOptions{DisableMultipart: true}
		o.SetMatchETagExcept("*")
		_, err := r.client.Client.PutObject(t.Context(), "digits", "main/long", body, size, o)
		put <- err
	}()
	if _, err := feed.Write(first); err != nil { // it has begun
		t.Fatal(err)
	}
	r.openCommit(t)
	if _, err := feed.Write(first); err != nil {
		t.Fatal(err)
	}
	_ = feed.Close()
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	if got := r.get(t, "main/long"); len(got) != size {
		t.Errorf("what was put is %.80q", got)
	}
	o := minio.PutObjectOptions{}
	o.SetMatchETagExcept("*")
	_, err := r.client.Client.PutObject(t.Context(), "digits", "main/long", strings.NewReader("2"), 1, o)
	if got := minio.ToErrorResponse(err).Code; got != "PreconditionFailed" {
		t.Errorf("put again: %v", err)
	}
	if _, there := r.held(t)["long"]; there {
		t.Error("the branch has it before the commit is closed")
	}
	r.closeCommit(t, data.CloseOptions{Message: "m"})
	if _, there := r.held(t)["long"]; !there {
		t.Error("the branch does not have it")
	}
}

// TestPutOfWhatItHeardBefore puts what the gateway thinks is there already, after somebody
// else has put something else there a moment ago.
func TestPutOfWhatItHeardBefore(t *testing.T) {
	for name, open := range map[string]bool{"to a branch": false, "to an open commit": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			elsewhere := func(text string) {
				t.Helper()
				s, err := r.dataset(t).Begin(t.Context(), "main", data.SessionOptions{Open: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Add(t.Context(), data.Contents([]data.Content{{Path: "a", Bytes: []byte(text)}}), data.AddOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Commit(t.Context(), data.CommitOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			r.put(t, "main/a", "1")
			if open {
				r.openCommit(t)
			}
			elsewhere("2")
			r.put(t, "main/a", "1")
			if got := r.get(t, "main/a"); got != "1" {
				t.Errorf("put alone: %q", got)
			}
			elsewhere("2")
			p := r.places[placeName{"team", "digits"}]
			both := []*change{
				{path: "a", author: "alice", fits: putFits("a", nil, nil), content: p.home.store.Content("a", []byte("1"))},
				{path: "q", author: "alice", fits: putFits("q", nil, nil), content: p.home.store.Content("q", []byte("z"))},
			}
			if err := errors.Join(r.commitAll(p, "main", both...)...); err != nil {
				t.Fatal(err)
			}
			if got := r.get(t, "main/a") + r.get(t, "main/q"); got != "1z" {
				t.Errorf("put with another: %q", got)
			}
			if open {
				r.closeCommit(t, data.CloseOptions{Message: "m"})
			}
			if diff := cmp.Diff(map[string]string{"a": "1", "q": "z"}, r.held(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOpenCommitOfABranchToCome has the first write of a dataset go to an open commit.
func TestOpenCommitOfABranchToCome(t *testing.T) {
	r := newRig(t)
	d := r.dataset(t)
	for _, branch := range []string{"main", "next"} {
		if _, err := d.OpenCommit(t.Context(), branch, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	r.put(t, "main/a", "1")
	r.put(t, "next/b", "2")
	heads, err := d.Heads(t.Context())
	if err != nil || len(heads) != 2 || heads[0].Kind != ref.Open || heads[1].Kind != ref.Open {
		t.Errorf("%v %v", heads, err)
	}
	var keys []string
	for o := range r.client.Client.ListObjects(t.Context(), "digits", minio.ListObjectsOptions{Recursive: true}) {
		keys = append(keys, o.Key)
	}
	if diff := cmp.Diff([]string{"main/a", "next/b"}, keys); diff != "" {
		t.Error(diff)
	}
	r.closeCommit(t, data.CloseOptions{Message: "m"})
	if diff := cmp.Diff(map[string]string{"a": "1"}, r.held(t)); diff != "" {
		t.Error(diff)
	}
}

// TestOpenAndCloseWhileManyPut opens and closes commits all the time, at one of two
// gateways' back: what was acknowledged is in the branch at the end, whichever it went to.
func TestOpenAndCloseWhileManyPut(t *testing.T) {
	const clients, puts = 8, 40
	r := newRig(t)
	other := serve(t, r.world, r.bytes)
	want := map[string]string{}
	for c := range clients {
		for i := range puts {
			want[fmt.Sprintf("%d/%d", c, i%10)] = fmt.Sprint(i) // the last one counts
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var toggling, putting sync.WaitGroup
	defer toggling.Wait()
	defer cancel()
	d := r.dataset(t)
	closed := 0
	toggling.Go(func() {
		for ctx.Err() == nil {
			if _, err := d.OpenCommit(t.Context(), "main", "ada"); err != nil {
				t.Error(err)
				return
			}
			_, err := d.CloseCommit(t.Context(), data.CloseOptions{Branch: "main", Message: "closed"})
			if err != nil {
				t.Error(err)
				return
			}
			closed++
		}
	})
	for c := range clients {
		at := []*rig{r, other}[c%2]
		putting.Go(func() {
			for i := range puts {
				body := fmt.Sprint(i)
				_, err := at.client.Client.PutObject(t.Context(), "digits", fmt.Sprintf("main/%d/%d", c, i%10), bytes.NewReader([]byte(body)), int64(len(body)), minio.PutObjectOptions{})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	putting.Wait()
	cancel()
	toggling.Wait()
	got := r.held(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Fatal(diff)
	}
	for path := range want {
		if got[path] != want[path] {
			t.Errorf("%s is %s, want %s", path, got[path], want[path])
		}
	}
	if closed == 0 {
		t.Error("none was closed")
	}
	t.Logf("%d were closed, and %d commits made", closed, len(r.commits(t)))
}
