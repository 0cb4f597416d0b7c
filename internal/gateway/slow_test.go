package gateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/turns"
)

// unsigned is what headers say of a body whose sum is not signed.
const unsigned = "UNSIGNED-PAYLOAD"

// say sends the head of a request that alice has signed, by a connection of its own.
func (r *rig) say(t *testing.T, method, path string, length int, headers map[string]string) (net.Conn, *bufio.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	req = signer.SignV4(*req, "ALICE", "wonderland", "", Region)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", req.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	head := &strings.Builder{}
	_, _ = fmt.Fprintf(head, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, path, req.URL.Host, length)
	for name := range req.Header {
		_, _ = fmt.Fprintf(head, "%s: %s\r\n", name, req.Header.Get(name))
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// heard is what comes back.
func heard(t *testing.T, from *bufio.Reader) (status int, says string) {
	t.Helper()
	got, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// hasty is a store whose bucket answers before it has been sent all.
type hasty struct {
	*backend.Memory
	bucket *backend.Bucket
}

func (h hasty) PutFrom(ctx context.Context, key string, size int64, from io.Reader) error {
	return h.bucket.PutFrom(ctx, key, size, from)
}

// TestAStoreThatAnswersEarly has a bucket refuse a part of which the rest does not come:
// who still reads it is not heard any more, and the connection is closed, not read on.
func TestAStoreThatAnswersEarly(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `<Error><Code>RequestTimeout</Code><Message>idle</Message></Error>`)
	}))
	defer s.Close()
	b, err := backend.OpenBucket(bucket.Options{Endpoint: s.URL, Bucket: "bucket", Region: Region, AccessKey: "a", SecretKey: "bbbbbbbb"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}},
		grants:   map[string]Grant{"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"}},
	}
	r := serve(t, w, hasty{&backend.Memory{}, b})
	id, err := r.client.NewMultipartUpload(t.Context(), "digits", "main/parts", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn, in := r.say(t, http.MethodPut, "/digits/main/parts?partNumber=1&uploadId="+id, 8<<20, map[string]string{"X-Amz-Content-Sha256": unsigned})
	if _, err := conn.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	status, says := heard(t, in)
	if status != http.StatusInternalServerError || !strings.Contains(says, "idle") {
		t.Errorf("%d: %s", status, says)
	}
	if err := conn.SetReadDeadline(time.Now().Add(drainTime / 2)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("the connection goes on: %q, %v", rest, err)
	}
	r.put(t, "main/after", "after")
}

// TestReadersThatAreEnded has a body that somebody reads not be wanted any more: that is
// not said to be its sender's doing, who did not send nothing for long.
func TestReadersThatAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _, _ = ours.Close(), theirs.Close() }()
		lane := turns.New(1, 1, time.Now)
		turn, err := lane.In(t.Context(), "team", "team")
		if err != nil {
			t.Fatal(err)
		}
		v := &visit{conn: ours, lane: lane, turn: turn}
		body := &whole{from: &arrival{body: ours, visit: v}, left: 10}
		got := make(chan error, 1)
		go func() {
			_, err := body.Read(make([]byte, 10))
			got <- err
		}()
		synctest.Wait()
		if !v.end() {
			t.Error("nobody reads")
		}
		if err := <-got; !errors.Is(err, errOver) {
			t.Errorf("whoever read: %v", err)
		}
		if err := body.Wrong(); err != nil {
			t.Errorf("the body is at fault: %v", err)
		}
	})
}

// TestSteadySendersStay has a body in chunks come at a good pace, for longer than nothing
// may come: it is not cut off, whoever waits.
func TestSteadySendersStay(t *testing.T) {
	r := newRigWith(t, Options{LongAtOnce: 1})
	r.grants["BOB"] = Grant{Secret: "builder", Namespace: "others", User: "bob"}
	r.datasets[placeName{"others", "digits"}] = &ref.Memory{}
	r.long.Rules.Stall, r.long.Rules.Window, r.long.Rules.Look = 2*time.Second, 500*time.Millisecond, 10*time.Millisecond
	const piece, pieces = 128 << 10, 30
	begin, end := fmt.Sprintf("%x\r\n", piece*pieces), "\r\n0\r\n\r\n"
	conn, in := r.say(t, http.MethodPut, "/digits/main/steady", len(begin)+piece*pieces+len(end), map[string]string{
		"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length": fmt.Sprint(piece * pieces),
	})
	other := make(chan error, 1)
	go func() {
		for r.long.Taken() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		_, err := r.as(t, "BOB", "builder").Client.PutObject(t.Context(), "digits", "main/bob", strings.NewReader(strings.Repeat("y", 4*data.MaxContent)), 4*data.MaxContent, minio.PutObjectOptions{DisableMultipart: true})
		other <- err
	}()
	tick := time.NewTicker(100 * time.Millisecond) // 1.3 MB/s, for 3 s
	defer tick.Stop()
	send := func(text string) {
		t.Helper()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	send(begin)
	for range pieces {
		send(strings.Repeat("x", piece))
		<-tick.C
	}
	send(end)
	if status, says := heard(t, in); status != http.StatusOK {
		t.Errorf("%d: %s", status, says)
	}
	if err := <-other; err != nil {
		t.Errorf("who waited: %v", err)
	}
}

// TestMessages are bodies that are no object's: one that does not come takes nobody's
// turn, and ends; one that is too long is refused; others come as a whole.
func TestMessages(t *testing.T) {
	const path = "/digits/main/x?uploadId=ABC"
	head := map[string]string{"X-Amz-Content-Sha256": unsigned}
	t.Run("stalled", func(t *testing.T) {
		r := newRigWith(t, Options{AtOnce: 1, MessageTime: time.Minute})
		for range 3 {
			conn, _ := r.say(t, http.MethodPost, path, 9000, head)
			if _, err := io.WriteString(conn, strings.Repeat("x", 8500)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.client.ListBuckets(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("too late", func(t *testing.T) {
		r := newRigWith(t, Options{MessageTime: 50 * time.Millisecond})
		conn, in := r.say(t, http.MethodPost, path, 9000, head)
		if _, err := io.WriteString(conn, strings.Repeat("x", 8500)); err != nil {
			t.Fatal(err)
		}
		if status, says := heard(t, in); status != http.StatusBadRequest || !strings.Contains(says, "RequestTimeout") || !strings.Contains(says, "not all of it came within 50ms") {
			t.Errorf("%d: %s", status, says)
		}
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("the connection goes on: %q, %v", rest, err)
		}
	})
	t.Run("too long", func(t *testing.T) {
		r := newRigWith(t, Options{})
		conn, in := r.say(t, http.MethodPost, path, mostMessage+1, head)
		if _, err := io.WriteString(conn, strings.Repeat("x", hereAlready)); err != nil {
			t.Fatal(err)
		}
		if status, says := heard(t, in); status != http.StatusBadRequest || !strings.Contains(says, "MaxMessageLengthExceeded") {
			t.Errorf("%d: %s", status, says)
		}
	})
	t.Run("no room", func(t *testing.T) {
		r := newRigWith(t, Options{Patience: 10 * time.Millisecond})
		if !r.messages.TryAcquire(messages) {
			t.Fatal("there is no room")
		}
		conn, in := r.say(t, http.MethodPost, path, 9000, head)
		if _, err := io.WriteString(conn, strings.Repeat("x", 8500)); err != nil {
			t.Fatal(err)
		}
		if status, says := heard(t, in); status != http.StatusServiceUnavailable || !strings.Contains(says, "SlowDown") {
			t.Errorf("%d: %s", status, says)
		}
	})
	t.Run("whole", func(t *testing.T) {
		r := newRigWith(t, Options{})
		r.put(t, "main/kept", "kept")
		text := &strings.Builder{}
		for i := range 1000 {
			_, _ = fmt.Fprintf(text, "<Object><Key>main/%d</Key></Object>", i)
			if i < 3 {
				r.put(t, fmt.Sprint("main/", i), "x")
			}
		}
		body := "<Delete>" + text.String() + "</Delete>"
		for range 2 { // and the connection is fit for another one
			conn, in := r.say(t, http.MethodPost, "/digits?delete", len(body), map[string]string{"X-Amz-Content-Sha256": hexsum(body), "X-Amz-Sdk-Checksum-Algorithm": "SHA256", "X-Amz-Checksum-Sha256": base64sum(body)})
			if _, err := io.WriteString(conn, body); err != nil {
				t.Fatal(err)
			}
			if status, says := heard(t, in); status != http.StatusOK || strings.Count(says, "<Deleted>") != 1000 {
				t.Errorf("%d: %.300s", status, says)
			}
		}
		if got := r.get(t, "main/0"); !strings.HasPrefix(got, "NoSuchKey") {
			t.Errorf("what was deleted: %s", got)
		}
		if got := r.get(t, "main/kept"); got != "kept" {
			t.Errorf("what was not: %s", got)
		}
		if !r.messages.TryAcquire(messages) {
			t.Error("their room was not given back")
		}
	})
}

// TestOneNamespaceWaits is how many requests of one namespace wait and are served.
func TestOneNamespaceWaits(t *testing.T) {
	for wide, want := range map[int]int{1: 256, 4: 256, 256: 1024, connections: connections / 2} {
		if got := new(Options).lane(wide).Each; got != want {
			t.Errorf("where %d are served at once: %d, not %d", wide, got, want)
		}
	}
}

func hexsum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func base64sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}
