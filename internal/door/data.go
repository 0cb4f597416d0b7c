package door

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
)

// noData is what is told where data is kept nowhere.
const noData = "there is no store of data on this cluster: an administrator sets one with `muster install --set data.s3.endpoint=...,data.s3.bucket=...,data.s3.secret=...`," +
	" or has it where code is kept (store.s3 or store.persistentVolumeClaim)"

// packBytes is how long a pack may be: it is as long as it has to be for one of 32
// MiB, a blob more and an index of the smallest blobs.
const packBytes = 1 << 30

// objects are those of the store of a namespace.
func (d *Door) objects(w http.ResponseWriter, namespace string) (backend.Streamer, error) {
	// That an object is not there is told by the door to data, and by nothing else.
	w.Header().Set(v1alpha1.DoorData, "v1")
	if d.opts.Data == nil {
		return nil, refuse(http.StatusServiceUnavailable, noData)
	}
	objects, err := d.opts.Data.Objects(namespace)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	return objects, nil
}

// sendObject answers with an object or a part of one, or to HEAD with what is known
// of it.
func (d *Door) sendObject(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, key := r.PathValue("namespace"), r.PathValue("key")
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	kind := data.KindOf(key)
	if err := d.mayReadObject(ctx, w, caller, namespace, kind); err != nil {
		return err
	}
	if kind == data.StrangeObject {
		return strange(key)
	}
	objects, err := d.objects(w, namespace)
	if err != nil {
		return err
	}
	text := r.Header.Get("Range")
	if text == "" || r.Method == http.MethodHead {
		info, err := objects.Stat(ctx, key)
		if err != nil {
			return absent(namespace, key, err)
		}
		w.Header().Set(backend.StoredHeader, info.Stored.UTC().Format(time.RFC3339Nano))
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
		if r.Method == http.MethodHead {
			return nil
		}
		return sendPart(ctx, w, objects, namespace, key, 0, info.Size, http.StatusOK)
	}
	offset, length, err := readRange(text)
	if err != nil {
		return err
	}
	return sendPart(ctx, w, objects, namespace, key, offset, length, http.StatusPartialContent)
}

// sendPart answers with a part of an object.
func sendPart(ctx context.Context, w http.ResponseWriter, objects backend.Streamer, namespace, key string, offset, length int64, status int) error {
	in, err := objects.Open(ctx, key, offset, length)
	if err != nil {
		return absent(namespace, key, err)
	}
	defer func() { _ = in.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	if status == http.StatusPartialContent {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", offset, offset+length-1))
	}
	w.WriteHeader(status)
	if _, err := io.Copy(w, in); err != nil {
		return fmt.Errorf("sending %s of namespace %s: %w", key, namespace, err)
	}
	return nil
}

// readRange reads a header of one range with both ends.
func readRange(text string) (offset, length int64, err error) {
	first, last, is := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	from, wrong := strconv.ParseInt(first, 10, 64)
	to, odd := strconv.ParseInt(last, 10, 64)
	if !is || !strings.HasPrefix(text, "bytes=") || wrong != nil || odd != nil || from < 0 || to < from || to-from >= packBytes || to == math.MaxInt64 {
		return 0, 0, refuse(http.StatusBadRequest, "Range: %q: give one range with both ends, such as bytes=0-4095", text)
	}
	return from, to - from + 1, nil
}

// listObjects answers with what is below a prefix, a line of JSON each, and a last
// one that says that it is the last.
func (d *Door) listObjects(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, prefix := r.PathValue("namespace"), r.URL.Query().Get("prefix")
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	if !data.Listed(prefix) {
		return refuse(http.StatusForbidden, "what is below %q is not listed for anybody: packs/, commits/ and condemned/ are", prefix)
	}
	objects, err := d.objects(w, namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, 32<<10)
	lines := json.NewEncoder(out)
	err = objects.List(ctx, prefix, func(i backend.Info) error {
		return lines.Encode(backend.Line{Key: i.Key, Size: i.Size, Stored: i.Stored})
	})
	if err == nil {
		err = errors.Join(lines.Encode(backend.Line{End: true}), out.Flush())
	}
	if err != nil {
		return fmt.Errorf("listing %s of namespace %s: %w", prefix, namespace, err)
	}
	return nil
}

// takeObject stores a pack, a commit or a lease. What is there already stays as it
// is, leases apart: their names are known to who has them alone.
func (d *Door) takeObject(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, key := r.PathValue("namespace"), r.PathValue("key")
	err := mayTake(caller, namespace, key, r.ContentLength)
	var objects backend.Streamer
	if err == nil {
		objects, err = d.objects(w, namespace)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		body := http.MaxBytesReader(w, r.Body, r.ContentLength)
		if data.KindOf(key) == data.PackObject {
			err = d.takePack(ctx, objects, namespace, key, r.ContentLength, body)
		} else {
			err = d.takeWhole(ctx, objects, namespace, key, body)
		}
	}
	if err != nil {
		// Who is still sending would not see the answer.
		_, _ = io.CopyN(io.Discard, r.Body, refusedBytes)
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// refusedBytes is how much is taken of what is not wanted.
const refusedBytes = 128 << 20

// mayTake refuses what a caller may not store.
func mayTake(caller Caller, namespace, key string, size int64) error {
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	kind := data.KindOf(key)
	most, is := map[data.Kind]int64{data.PackObject: packBytes, data.CommitObject: data.MaxCommit, data.LeaseObject: data.MaxLease}[kind]
	switch {
	case kind == data.StrangeObject:
		return strange(key)
	case !is:
		return refuse(http.StatusForbidden, "%s is written by the manager alone", key)
	case size < 0:
		return refuse(http.StatusBadRequest, "%s: how long it is has to be said (Content-Length)", key)
	case size > most:
		return refuse(http.StatusRequestEntityTooLarge, "%s has %d bytes: at most %d are taken", key, size, most)
	}
	return nil
}

// takePack stores a pack as it comes.
func (d *Door) takePack(ctx context.Context, objects backend.Streamer, namespace, key string, size int64, body io.Reader) error {
	there, err := objects.Stat(ctx, key)
	if err == nil {
		return sameAs(ctx, objects, there, size, body)
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bale.ErrUnread) {
		return err
	}
	if err := d.opts.Data.Reserve(ctx, namespace, size); err != nil {
		return err
	}
	return objects.PutFrom(ctx, key, size, body)
}

// takeWhole stores a commit or a lease, once it is known to be one. Leases do not
// count as bytes: who has no room left still reads.
func (d *Door) takeWhole(ctx context.Context, objects backend.Streamer, namespace, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if err := data.CheckObject(key, content); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	if data.KindOf(key) == data.LeaseObject {
		return d.leases.put(ctx, objects, namespace, key, content)
	}
	if data.KindOf(key) == data.CommitObject {
		there, err := objects.Stat(ctx, key)
		if err == nil {
			return sameAs(ctx, objects, there, int64(len(content)), bytes.NewReader(content))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := d.opts.Data.Reserve(ctx, namespace, int64(len(content))); err != nil {
			return err
		}
	}
	return objects.Put(ctx, key, content)
}

// sameAs refuses other content than is there: what was stored once never changes.
// Whoever did not hear that it was stored may send the same again.
func sameAs(ctx context.Context, objects backend.Streamer, there backend.Info, size int64, body io.Reader) error {
	other := refuse(http.StatusConflict, "%s is there already, and is something else: what was stored once does not change", there.Key)
	if there.Size != size {
		return other
	}
	in, err := objects.Open(ctx, there.Key, 0, size)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	same, err := equal(in, body)
	if err != nil {
		return err
	}
	if !same {
		return other
	}
	return nil
}

// equal compares two readers of one length.
func equal(a, b io.Reader) (bool, error) {
	const step = 64 << 10
	mine, theirs := make([]byte, step), make([]byte, step)
	for {
		n, err := io.ReadFull(a, mine)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return false, err
		}
		if _, err := io.ReadFull(b, theirs[:n]); err != nil {
			return false, err
		}
		if last || !bytes.Equal(mine[:n], theirs[:n]) {
			return bytes.Equal(mine[:n], theirs[:n]), nil
		}
	}
}

// removeObject removes a lease. Whatever else goes is the manager's to collect.
func (d *Door) removeObject(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, key := r.PathValue("namespace"), r.PathValue("key")
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	switch data.KindOf(key) {
	case data.StrangeObject:
		return strange(key)
	case data.LeaseObject:
	default:
		return refuse(http.StatusForbidden, "%s is removed by the manager alone, once nothing leads to it", key)
	}
	objects, err := d.objects(w, namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	if err := d.leases.remove(ctx, objects, namespace, key); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func strange(key string) error {
	return refuse(http.StatusBadRequest, "%q is no key of a store of data: is this program of another version than the cluster's? `muster version` says", key)
}

// absent gives the status of the door to what a store says of an object.
func absent(namespace, key string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(http.StatusNotFound, "the store of namespace %s has no object %s", namespace, key)
	case errors.Is(err, backend.ErrShort):
		return refuse(http.StatusRequestedRangeNotSatisfiable, "object %s of namespace %s is shorter than what is asked of it", key, namespace)
	}
	return err
}
