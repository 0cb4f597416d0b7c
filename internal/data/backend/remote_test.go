package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
)

// Of an answer that breaks off the rest is asked for, however often that is, as long as
// something comes; where nothing does, there is an end to it.
func TestABrokenReadResumes(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100)
	cut := errors.New("cut")
	for name, test := range map[string]struct {
		each, asked int // bytes of each answer; how often is asked
		want        error
	}{
		"whole": {1000, 1, nil}, "in pieces": {100, 10, nil}, "nothing comes": {0, brokenTries, cut},
	} {
		t.Run(name, func(t *testing.T) {
			asked, sent := 0, 0
			r := NewRemote(func(_ context.Context, q Question) (*http.Response, error) {
				asked++
				var from, to int
				if _, err := fmt.Sscanf(q.Range, "bytes=%d-%d", &from, &to); err != nil {
					t.Fatal(err)
				}
				part := content[from:min(to+1, from+test.each)]
				sent += len(part)
				body := io.MultiReader(bytes.NewReader(part), iotest.ErrReader(cut))
				return &http.Response{StatusCode: http.StatusPartialContent, Body: io.NopCloser(body)}, nil
			})
			got := make([]byte, len(content))
			err := r.ReadAt(t.Context(), "packs/x", 0, got)
			if !errors.Is(err, test.want) || err == nil && !bytes.Equal(got, content) {
				t.Errorf("error %v, want %v; what came is right: %v", err, test.want, bytes.Equal(got, content))
			}
			if asked != test.asked || err == nil && sent != len(content) {
				t.Errorf("asked %d times for %d bytes, want %d times, each byte once", asked, sent, test.asked)
			}
		})
	}
}
