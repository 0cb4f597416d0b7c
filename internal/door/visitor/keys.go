package visitor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// MakeKey has an access key for S3 clients made for whoever asks, and decodes it. It is
// good for a while; 0: for as long as may be.
func (v *Visitor) MakeKey(ctx context.Context, namespace string, life time.Duration, key any) error {
	text, err := json.Marshal(map[string]int64{"seconds": int64(life / time.Second)})
	if err != nil {
		return fmt.Errorf("writing which key is wanted: %w", err)
	}
	return v.key(ctx, request{
		method: http.MethodPost, namespace: namespace, path: "/keys", kind: "application/json",
		body: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
	}, key)
}

// RemoveKey removes an access key of whoever asks.
func (v *Visitor) RemoveKey(ctx context.Context, namespace, id string) error {
	return v.key(ctx, request{method: http.MethodDelete, namespace: namespace, path: "/keys/" + url.PathEscape(id)}, nil)
}

func (v *Visitor) key(ctx context.Context, r request, into any) error {
	r.full = true
	got, err := v.knock(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(got.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of Muster's manager: %w", err)
	}
	return nil
}
