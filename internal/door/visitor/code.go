package visitor

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/muster-dev/muster/internal/environment/source"
)

const (
	tarKind = "application/x-tar"
	// rounds is how often a snapshot is sent without becoming less.
	rounds = 8
)

// Sent is what was sent of a snapshot.
type Sent struct {
	// Contents and Bytes count the contents that the door did not have.
	Contents int
	Bytes    int64
}

// Send makes the door have a snapshot of a store for a namespace. Nothing is
// sent that it has. Progress, if set, hears how many of how many bytes are on
// their way, by one goroutine at a time.
func (v *Visitor) Send(ctx context.Context, namespace string, store *source.Store, digest string, progress func(done, total int64)) (Sent, error) {
	if err := v.Has(ctx, namespace, digest); err == nil || !Is(err, http.StatusNotFound) {
		return Sent{}, err
	}
	parcel, err := store.Parcel(digest)
	if err != nil {
		return Sent{}, err
	}
	s := &sending{store: store, parcel: parcel, progress: progress}
	// Once for what is missing, once with it; again where something went
	// meanwhile; and for as long as it becomes less where others want a turn, too.
	least := int64(math.MaxInt64)
	for left := rounds; left > 0; left-- {
		err := v.put(ctx, namespace, s)
		var refused *Refused
		switch {
		case err == nil:
			return s.sent, s.rest(ctx)
		case !errors.As(err, &refused) || refused.Status != http.StatusConflict || !refused.ByDoor:
			return Sent{}, err
		}
		missing, err := s.add(ctx, refused.Missing)
		if err != nil {
			return Sent{}, err
		}
		if missing < least {
			least, left = missing, rounds
		}
	}
	return Sent{}, fmt.Errorf("sending the code: Muster's manager asked for the same files again and again: is its store emptied by somebody else?")
}

// Has counts as use of a snapshot. The error is a 404 of the door where it is
// not there.
func (v *Visitor) Has(ctx context.Context, namespace, digest string) error {
	answer, err := v.knock(ctx, request{method: http.MethodHead, namespace: namespace, path: "/code/" + digest})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Fetch lays a snapshot of a namespace out as the new folder dst, checked, as
// [source.Unpack] does.
func (v *Visitor) Fetch(ctx context.Context, namespace, digest, dst string) error {
	answer, err := v.knock(ctx, request{method: http.MethodGet, namespace: namespace, path: "/code/" + digest})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return source.Unpack(ctx, answer.Body, digest, dst, source.Limits{})
}

func (v *Visitor) put(ctx context.Context, namespace string, s *sending) error {
	answer, err := v.knock(ctx, request{
		method: http.MethodPut, namespace: namespace, path: "/code/" + s.parcel.Digest(), kind: tarKind,
		body:  func() (io.ReadCloser, error) { return s.body(ctx) },
		again: s.ask,
	})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// sending is a snapshot on its way.
type sending struct {
	store    *source.Store
	parcel   *source.Parcel
	contents []source.Content
	progress func(done, total int64)
	sent     Sent
	// before are the bytes that arrived with earlier requests.
	before int64
	// written is closed once the body that was made last is written, or given up.
	written chan struct{}
}

// rest waits until nobody writes a body any more: the door may answer before it
// has read one, and who writes it hears of that a moment later.
func (s *sending) rest(ctx context.Context) error {
	if s.written == nil {
		return nil
	}
	select {
	case <-s.written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask has the list alone be sent next: the door says what of it is still
// missing.
func (s *sending) ask(ctx context.Context) error {
	if err := s.rest(ctx); err != nil {
		return err
	}
	s.contents = nil
	return nil
}

// add has contents be sent, too, and returns how many bytes they have.
func (s *sending) add(ctx context.Context, missing []string) (int64, error) {
	if err := s.rest(ctx); err != nil {
		return 0, err
	}
	wanted := map[string]bool{}
	for _, hash := range missing {
		wanted[hash] = true
	}
	s.contents = nil
	var bytes int64
	for _, c := range s.parcel.Contents() {
		if wanted[c.Hash] {
			s.contents = append(s.contents, c)
			bytes += c.Size
			delete(wanted, c.Hash)
		}
	}
	if len(wanted) > 0 || len(s.contents) == 0 {
		return 0, fmt.Errorf("sending the code: Muster's manager asks for files that are not in it: is it of another version? `muster version` says")
	}
	// What was missing at first is what is sent in the end.
	s.sent.Contents, s.sent.Bytes = max(s.sent.Contents, len(s.contents)), max(s.sent.Bytes, bytes)
	s.before = s.sent.Bytes - bytes
	return bytes, nil
}

// body is the tar of the list and the contents, written while it is read.
func (s *sending) body(ctx context.Context) (io.ReadCloser, error) {
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	written := make(chan struct{})
	s.written = written
	go func() { // ends with its reader
		defer close(written)
		_ = out.CloseWithError(s.write(ctx, out))
	}()
	return in, nil
}

func (s *sending) write(ctx context.Context, out io.Writer) error {
	archive := tar.NewWriter(out)
	data := s.parcel.Encoded()
	if err := archive.WriteHeader(&tar.Header{Name: source.ListName, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(data))}); err != nil {
		return err
	}
	if _, err := archive.Write(data); err != nil {
		return err
	}
	done := s.before
	for _, c := range s.contents {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: source.ContentPrefix + c.Hash, Typeflag: tar.TypeReg, Mode: 0o600, Size: c.Size}); err != nil {
			return err
		}
		if err := s.copy(archive, c); err != nil {
			return err
		}
		if done += c.Size; s.progress != nil {
			s.progress(done, s.sent.Bytes)
		}
	}
	return archive.Close()
}

func (s *sending) copy(out io.Writer, c source.Content) error {
	in, err := s.store.Open(c.Hash)
	if err != nil {
		return fmt.Errorf("reading the code: %w", err)
	}
	defer func() { _ = in.Close() }()
	if _, err := io.CopyN(out, in, c.Size); err != nil {
		return fmt.Errorf("reading the code: %w", err)
	}
	return nil
}
