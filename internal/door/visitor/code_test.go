package visitor

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment/source"
)

// A door that answers before it has read what is sent is sent it again, by one
// writer at a time.
func TestSendingToADoorThatDoesNotListen(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "large"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := source.Open(filepath.Join(t.TempDir(), "code"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := store.Snapshot(t.Context(), folder, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	parcel, err := store.Parcel(snapshot.Digest)
	if err != nil {
		t.Fatal(err)
	}
	var puts, names int
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(v1alpha1.DoorMark, "v1")
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		switch puts++; puts {
		case 1: // asks for what is missing
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": "missing", "missing": []string{parcel.Contents()[0].Hash}})
		case 2: // does not listen
			w.WriteHeader(http.StatusUnauthorized)
		default:
			for in := tar.NewReader(r.Body); ; names++ {
				if _, err := in.Next(); err != nil {
					break
				}
			}
			w.WriteHeader(http.StatusCreated)
		}
	}))
	defer door.Close()
	v := &Visitor{base: door.URL, http: door.Client(), token: func(context.Context, string, bool) (string, error) { return "token", nil }}
	var inside atomic.Int32
	told := int64(0) // by one at a time, or the race detector says so
	sent, err := v.Send(t.Context(), "ada", store, snapshot.Digest, func(done, _ int64) {
		if inside.Add(1) > 1 {
			t.Error("two tell at once how far it is")
		}
		told = done
		inside.Add(-1)
	})
	if err != nil || sent.Contents != 1 || sent.Bytes != 8<<20 || told != 8<<20 {
		t.Errorf("%+v, told of %d bytes: %v", sent, told, err)
	}
	if puts != 3 || names != 2 {
		t.Errorf("%d attempts, %d entries in the last", puts, names)
	}
}
