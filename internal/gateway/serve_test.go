package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
)

// TestTaken serves where somebody else does: that ends with an error, and at once.
func TestTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	w := &world{}
	g, err := New(Options{Stores: One{Uploads: &backend.Memory{}}, Catalog: w, Keyring: w, Address: taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = g.Serve(ctx, func(string) { t.Error("it says that it serves") })
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("it ended only when it was told to")
	}
}

// TestTurns has more long files than may be put at once: the others wait, and are told
// to come again; short ones pass.
func TestTurns(t *testing.T) {
	r := newRigWith(t, Options{LongAtOnce: 1, Patience: 50 * time.Millisecond})
	long := strings.Repeat("long ", data.MaxContent)
	id, err := r.client.NewMultipartUpload(t.Context(), "digits", "main/parts", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one, err := r.client.PutObjectPart(t.Context(), "digits", "main/parts", id, 1, strings.NewReader(long), int64(len(long)), minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	complete := func() error {
		_, err := r.client.CompleteMultipartUpload(t.Context(), "digits", "main/parts", id, []minio.CompletePart{{PartNumber: 1, ETag: one.ETag}}, minio.PutObjectOptions{})
		return err
	}
	// Somebody begins one, and does not come to its end.
	rest, body := io.Pipe()
	other := make(chan error, 1)
	go func() {
		_, err := r.client.Client.PutObject(t.Context(), "digits", "main/slow", rest, int64(len(long)), minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: true})
		other <- err
	}()
	if _, err := io.WriteString(body, long[:len(long)/2]); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); len(r.long) == 0; time.Sleep(time.Millisecond) { // half of it was sent, and is about to come
		if time.Since(began) > 20*time.Second {
			t.Fatal("the first one has not begun")
		}
	}
	if status, said := r.send(t, http.MethodPut, "digits/main/long", nil, long); status != 503 || !strings.Contains(said, "SlowDown") {
		t.Errorf("a second one: %d: %s", status, said)
	}
	if err := complete(); minio.ToErrorResponse(err).Code != "SlowDown" {
		t.Errorf("an upload: %v", err)
	}
	r.put(t, "main/short", "short")
	if _, err := io.WriteString(body, long[len(long)/2:]); err != nil {
		t.Fatal(err)
	}
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	if status, said := r.send(t, http.MethodPut, "digits/main/long", nil, long); status != 200 {
		t.Errorf("after that: %d: %s", status, said)
	}
	if err := complete(); err != nil {
		t.Error(err)
	}
}
