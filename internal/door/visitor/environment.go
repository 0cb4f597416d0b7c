package visitor

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/muster-dev/muster/internal/environment/bundle"
)

// FetchEnvironment lays an environment of a namespace out as the new folder dst,
// as [bundle.Unpack] does.
func (v *Visitor) FetchEnvironment(ctx context.Context, namespace, key, dst string) error {
	answer, err := v.knock(ctx, request{method: http.MethodGet, namespace: namespace, path: "/environments/" + key})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return bundle.Unpack(ctx, answer.Body, dst)
}

// SendEnvironment makes the door have an environment that was packed into a file.
// The error wraps [bundle.ErrUnwanted] where the door will never take it.
func (v *Visitor) SendEnvironment(ctx context.Context, namespace, key string, packed bundle.Packed, file string) error {
	answer, err := v.knock(ctx, request{
		method: http.MethodPut, namespace: namespace, path: "/environments/" + key, kind: tarKind,
		body: func() (io.ReadCloser, error) { return environmentBody(packed, file) },
	})
	var refused *Refused
	switch {
	case err == nil:
		return answer.Body.Close()
	case errors.As(err, &refused) && refused.ByDoor && final(refused.Status):
		return fmt.Errorf("%w: %w", bundle.ErrUnwanted, err)
	}
	return err
}

// final reports whether an answer will be the same tomorrow.
func final(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		return true
	}
	return false
}

// environmentBody is what is sent of an environment: what is said of it, and its
// tar.
func environmentBody(packed bundle.Packed, file string) (io.ReadCloser, error) {
	text, err := json.Marshal(packed)
	if err != nil {
		return nil, fmt.Errorf("writing what is said of the environment: %w", err)
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the environment: %w", err)
	}
	out, body := io.Pipe()
	go func() { // ends with its reader
		_ = body.CloseWithError(errors.Join(writeEnvironment(body, text, in, packed.Size), in.Close()))
	}()
	return out, nil
}

func writeEnvironment(out io.Writer, text []byte, content io.Reader, size int64) error {
	archive := tar.NewWriter(out)
	if err := archive.WriteHeader(&tar.Header{Name: bundle.PackedName, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := archive.Write(text); err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: bundle.TarName, Typeflag: tar.TypeReg, Mode: 0o600, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := io.CopyN(archive, content, size); err != nil {
		return fmt.Errorf("reading the environment: %w", err)
	}
	return archive.Close()
}
