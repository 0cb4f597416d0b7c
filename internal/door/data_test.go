package door

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/contract"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// packKey and leaseKey are the keys of a pack and of a lease, made of a name.
func packKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	text := hex.EncodeToString(sum[:16])
	return "packs/" + text[:2] + "/" + text
}

func leaseKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "leases/" + base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// lease is a lease that says something of no meaning, too.
func lease(text string) string { return `{"ttl":60000000000,"said":"` + text + `"}` }

// TestObjectsByTheDoor: what is reached by the door is held to what all backends are,
// as far as packs and leases go.
func TestObjectsByTheDoor(t *testing.T) {
	h := open(t, true)
	contract.RunNames(t, h.as("ada").Data("ada"), contract.Names{Kept: packKey, Changed: leaseKey, Text: lease})
}

func listed(t *testing.T, b backend.Backend, prefix string) ([]string, error) {
	t.Helper()
	var keys []string
	err := b.List(t.Context(), prefix, func(i backend.Info) error {
		keys = append(keys, fmt.Sprintf("%s %d %v", i.Key, i.Size, i.Stored.IsZero()))
		return nil
	})
	slices.Sort(keys)
	return keys, err
}

func TestListsOfObjects(t *testing.T) {
	h := open(t, true)
	ada := h.as("ada").Data("ada")
	var want []string
	for i := range 300 { // more than fits into what is sent at once
		key := packKey(fmt.Sprint(i))
		h.must(ada.Put(t.Context(), key, []byte("x")))
		want = append(want, key+" 1 false")
	}
	h.must(ada.Put(t.Context(), leaseKey("mine"), []byte(lease(""))))
	slices.Sort(want)
	got, err := listed(t, ada, "packs/")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	below := want[0][:len("packs/00/")]
	var few []string
	for _, line := range want {
		if strings.HasPrefix(line, below) {
			few = append(few, line)
		}
	}
	if got, err := listed(t, ada, below); !slices.Equal(got, few) || err != nil {
		t.Errorf("below %s: %v %v", below, got, err)
	}
	if got, err := listed(t, ada, "commits/"); len(got) > 0 || err != nil {
		t.Errorf("commits: %v %v", got, err)
	}
	for _, prefix := range []string{"leases/", "packs/00/11/", "clock/"} {
		if got, err := listed(t, ada, prefix); !visitor.Is(err, http.StatusForbidden) {
			t.Errorf("%s is listed: %v %v", prefix, got, err)
		}
	}
}

// TestWhatIsStoredOnceDoesNotChange, whoever asks for it.
func TestWhatIsStoredOnceDoesNotChange(t *testing.T) {
	h := open(t, true)
	ada := h.as("ada").Data("ada")
	key := packKey("one")
	h.must(ada.Put(t.Context(), key, []byte("before")))
	h.must(ada.Put(t.Context(), key, []byte("before"))) // whoever did not hear of it
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"other bytes":           {ada.Put(t.Context(), key, []byte("behind")), http.StatusConflict},
		"more bytes":            {ada.Put(t.Context(), key, []byte("before and after")), http.StatusConflict},
		"removed":               {ada.Delete(t.Context(), key), http.StatusForbidden},
		"no commit":             {ada.Put(t.Context(), "commits/00/"+strings.Repeat("0", 64), []byte("{}")), http.StatusBadRequest},
		"no lease":              {ada.Put(t.Context(), leaseKey("x"), []byte("{}")), http.StatusBadRequest},
		"a lease for ever":      {ada.Put(t.Context(), leaseKey("x"), []byte(`{"ttl":9000000000000000}`)), http.StatusBadRequest},
		"a list of a collector": {ada.Put(t.Context(), strings.Replace(leaseKey("x"), "leases", "condemned", 1), []byte("{}")), http.StatusForbidden},
		"a collector's clock":   {ada.Put(t.Context(), "clock", nil), http.StatusBadRequest},
		"its removal":           {ada.Delete(t.Context(), "clock"), http.StatusBadRequest},
		"a lease that is long":  {ada.Put(t.Context(), leaseKey("x"), bytes.Repeat([]byte(" "), data.MaxLease+1)), http.StatusRequestEntityTooLarge},
		"more than the quota":   {ada.Put(t.Context(), packKey("large"), make([]byte, dataQuota)), http.StatusInsufficientStorage},
		"of another namespace":  {h.as("bob").Data("ada").Put(t.Context(), packKey("x"), nil), http.StatusForbidden},
		"by an agent":           {h.as("node").Data("ada").Put(t.Context(), packKey("x"), nil), http.StatusForbidden},
	} {
		if !visitor.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %d", name, c.err, c.want)
		}
	}
	if got, err := backend.Read(t.Context(), ada, key); string(got) != "before" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if got, err := listed(t, ada, "packs/"); len(got) != 1 || err != nil {
		t.Errorf("what was refused is there: %v %v", got, err)
	}
}

// TestWhoReadsObjects: who speaks for the namespace, and the agent of a node on which
// a pod of it names data.
func TestWhoReadsObjects(t *testing.T) {
	h := open(t, true)
	h.must(h.as("ada").Data("ada").Put(t.Context(), packKey("x"), []byte("x")))
	read := func(who string) error {
		return h.as(who).Data("ada").ReadAt(t.Context(), packKey("x"), 0, make([]byte, 1))
	}
	denied := func(who, why string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2) // an agent asks again after a second
		defer cancel()
		err := h.as(who).Data("ada").ReadAt(ctx, packKey("x"), 0, make([]byte, 1))
		if !visitor.Is(err, http.StatusForbidden) {
			t.Errorf("%s reads %s: %v", who, why, err)
		}
	}
	h.must(read("ada"))
	denied("bob", "another namespace")
	denied("node", "without a pod")
	pod := func(namespace, name, node, driver string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}}}
		h.must(h.api.Create(t.Context(), p))
		return p
	}
	pod("ada", "elsewhere", "node-2", v1alpha1.DataDriver)
	pod("bob", "another", "node-1", v1alpha1.DataDriver)
	pod("ada", "code", "node-1", v1alpha1.CodeDriver)
	done := pod("ada", "done", "node-1", v1alpha1.DataDriver)
	done.Status.Phase = corev1.PodSucceeded
	h.must(h.api.Status().Update(t.Context(), done))
	denied("node", "for pods of others, elsewhere, of other kinds and that are done")
	pod("ada", "member", "node-1", v1alpha1.DataDriver)
	h.must(read("node"))
	agent := h.as("node").Data("ada")
	for name, err := range map[string]error{
		"a lease": agent.Delete(t.Context(), leaseKey("x")),
		"a list":  agent.List(t.Context(), "packs/", func(backend.Info) error { return nil }),
	} {
		if !visitor.Is(err, http.StatusForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneNamespaceOfANode: what its pods ask a node for, and do not take, keeps the node
// from nothing that it reads for another namespace.
func TestOneNamespaceOfANode(t *testing.T) {
	h := open(t, true)
	h.door.lanes.read.Each = 2
	h.must(h.as("ada").Data("ada").Put(t.Context(), packKey("long"), make([]byte, 15<<20)))
	h.must(h.as("bob").Data("bob").Put(t.Context(), packKey("x"), []byte("x")))
	for _, namespace := range []string{"ada", "bob"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "member"}, Spec: corev1.PodSpec{NodeName: "node-1"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver}}}}
		h.must(h.api.Create(t.Context(), p))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the door makes its own certificate
	t.Cleanup(client.CloseIdleConnections)
	for range h.door.lanes.read.Each {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+h.door.Address()+"/v1/namespaces/ada/data/"+packKey("long"), http.NoBody)
		h.must(err)
		request.Header.Set(v1alpha1.DoorHeader, "node")
		answer, err := client.Do(request)
		h.must(err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		if answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // an agent asks again and again
	defer cancel()
	h.must(h.as("node").Data("bob").ReadAt(ctx, packKey("x"), 0, make([]byte, 1)))
}

// TestWithoutAStoreOfData says what to set, and does not say that there is nothing.
func TestWithoutAStoreOfData(t *testing.T) {
	h := open(t, false)
	_, err := h.as("ada").Data("ada").Stat(t.Context(), packKey("x"))
	if !visitor.Is(err, http.StatusServiceUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	err = h.as("ada").Data("ada").Put(t.Context(), packKey("x"), nil)
	if err == nil || !strings.Contains(err.Error(), "data.s3.endpoint") {
		t.Error(err)
	}
}

// TestADoorOfAnotherVersion knows nothing of data: that is no statement on objects.
func TestADoorOfAnotherVersion(t *testing.T) {
	h := open(t, true)
	err := h.as("ada").Ask(t.Context(), "ada", "/nothing", nil, nil)
	if !visitor.Is(err, http.StatusNotFound) || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestAStoreByTheDoor is a whole life of a dataset whose bytes come and go by the
// door, and a collection beside it that a lease keeps away.
func TestAStoreByTheDoor(t *testing.T) {
	h := open(t, true)
	ctx := t.Context()
	store, err := data.Open(ctx, data.Options{Backend: h.as("ada").Data("ada"), Workers: 2})
	h.must(err)
	defer func() { _ = store.Close() }()
	heads := &ref.Memory{}
	d := store.Dataset(heads)
	dir := t.TempDir()
	long := strings.Repeat("a line of a file that is cut into several chunks\n", 40_000)
	for name, text := range map[string]string{"a/one": "1", "a/two": "2", "long": long} {
		h.must(errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)))
	}
	session, err := d.Begin(ctx, "main", data.SessionOptions{})
	h.must(err)
	h.must(session.Add(ctx, data.Folder(dir), data.AddOptions{}))
	// A collection in the middle finds a writer, and takes nothing away.
	report, err := h.data.Collect(ctx, "ada", data.CollectOptions{Heads: []ref.Heads{heads}})
	if err != nil || report.Packs > 0 {
		t.Errorf("%+v %v", report, err)
	}
	_, err = session.Commit(ctx, data.CommitOptions{Message: "first"})
	h.must(err)
	h.must(session.Close(ctx))
	view, err := d.At(ctx, "main")
	h.must(err)
	out := filepath.Join(t.TempDir(), "out")
	_, err = view.Checkout(ctx, out, data.CheckoutOptions{})
	h.must(err)
	if text, err := os.ReadFile(filepath.Join(out, "long")); err != nil || string(text) != long {
		t.Errorf("%d bytes %v", len(text), err)
	}
	verified, err := store.Verify(ctx, data.VerifyOptions{Heads: []ref.Heads{heads}, Bytes: true})
	if err != nil || verified.Files != 3 || len(verified.Problems) > 0 {
		t.Errorf("%+v %v", verified, err)
	}
	if _, err := store.Collect(ctx, data.CollectOptions{Heads: []ref.Heads{heads}}); err == nil {
		t.Error("who comes by the door collects")
	}
	// The manager's own store of the namespace is the same one.
	own, err := h.data.Store(ctx, "ada")
	h.must(err)
	if _, err := own.Dataset(heads).At(ctx, "main"); err != nil {
		t.Error(err)
	}
	other, err := h.data.Store(ctx, "bob")
	h.must(err)
	if _, err := other.Dataset(heads).At(ctx, "main"); err == nil {
		t.Error("a commit of ada's is in the store of bob")
	}
}

// TestAnAnswerThatBreaksOff is asked for again, and an unfinished list is no list.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Query().Has("prefix") {
			_, _ = io.WriteString(w, `{"key":"packs/x","size":1}`+"\n")
			return
		}
		from := map[int]int{1: 0, 2: 2, 3: 2}[asked]
		if want := fmt.Sprintf("bytes=%d-3", from); r.Header.Get("Range") != want {
			t.Errorf("asked for %s, want the rest: %s", r.Header.Get("Range"), want)
		}
		w.Header().Set("Content-Length", strconv.Itoa(4-from))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, map[int]string{1: "da", 2: "", 3: "ta"}[asked])
	}))
	t.Cleanup(server.Close)
	remote := backend.NewRemote(func(ctx context.Context, q backend.Question) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, q.Method, server.URL+"?prefix="+q.Prefix, nil)
		if err != nil {
			return nil, err
		}
		if q.Key != "" {
			req.URL.RawQuery = ""
		}
		req.Header.Set("Range", q.Range)
		return server.Client().Do(req)
	})
	into := make([]byte, 4)
	if err := remote.ReadAt(t.Context(), "packs/x", 0, into); err != nil || string(into) != "data" || asked != 3 {
		t.Errorf("%q after %d: %v", into, asked, err)
	}
	seen := 0
	if err := remote.List(t.Context(), "packs/", func(backend.Info) error { seen++; return nil }); err == nil || seen > 0 {
		t.Errorf("%d of a list that broke off: %v", seen, err)
	}
}
