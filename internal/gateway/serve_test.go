package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/turns"
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
	for began := time.Now(); r.long.Taken() == 0; time.Sleep(time.Millisecond) { // half of it was sent, and is about to come
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

// TestSlowSendersMakeRoom has one namespace hold all turns with bodies that do not come:
// another one's requests pass, and who was slow is told so. With nobody waiting, only who
// sends nothing at all is told.
func TestSlowSendersMakeRoom(t *testing.T) {
	begin := func(t *testing.T, r *rig, key string, length int) (rest func() error, done <-chan error) {
		t.Helper()
		body, in := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := r.client.Client.PutObject(t.Context(), "digits", key, body, int64(length), minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: true})
			_ = body.Close() // nobody reads on
			ended <- err
		}()
		half := bytes.Repeat([]byte("x"), length/2)
		if _, err := in.Write(half); err != nil {
			t.Fatal(err)
		}
		return func() error {
			_, err := in.Write(half)
			return errors.Join(err, in.Close())
		}, ended
	}
	for name, c := range map[string]struct {
		length int
		lane   func(*rig) *turns.Lane
	}{
		"short": {data.MaxContent, func(r *rig) *turns.Lane { return r.short }},
		"long":  {4 * data.MaxContent, func(r *rig) *turns.Lane { return r.long }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, Options{AtOnce: 2, LongAtOnce: 2})
			r.datasets[placeName{"others", "digits"}] = &ref.Memory{}
			r.grants["BOB"] = Grant{Secret: "builder", Namespace: "others", User: "bob"}
			lane := c.lane(r)
			lane.Rules.Window, lane.Rules.Look = 50*time.Millisecond, 5*time.Millisecond
			rest1, first := begin(t, r, "main/1", c.length)
			rest2, second := begin(t, r, "main/2", c.length)
			for lane.Taken() < 2 {
				runtime.Gosched()
			}
			content := strings.Repeat("y", c.length)
			_, err := r.as(t, "BOB", "builder").Client.PutObject(t.Context(), "digits", "main/bob", strings.NewReader(content), int64(c.length), minio.PutObjectOptions{DisableMultipart: true})
			if err != nil {
				t.Errorf("who is of another namespace: %v", err)
			}
			// One of them made room, and the other goes on.
			var slow error
			rest, other := rest2, second
			select {
			case slow = <-first:
			case slow = <-second:
				rest, other = rest1, first
			}
			if told := minio.ToErrorResponse(slow); told.Code != "SlowDown" || !strings.Contains(told.Message, "a second arrived where 64 KiB are wanted: come again in a moment") {
				t.Errorf("who was slow: %v", slow)
			}
			if err := errors.Join(rest(), <-other); err != nil {
				t.Errorf("who could stay: %v", err)
			}
		})
		t.Run(name+", nothing comes", func(t *testing.T) {
			r := newRigWith(t, Options{})
			c.lane(r).Rules.Stall = 50 * time.Millisecond
			_, stalled := begin(t, r, "main/1", c.length)
			if err := <-stalled; minio.ToErrorResponse(err).Code != "RequestTimeout" {
				t.Errorf("who sends nothing more: %v", err)
			}
			r.put(t, "main/after", "after")
		})
	}
}
