package gateway

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestEmptyObjectsInARow are sent as the end of a row of signed chunks, which nothing
// announces the length of. Nothing of it is taken for the connection's next request,
// whether the object is taken or refused.
func TestEmptyObjectsInARow(t *testing.T) {
	r := newRig(t)
	for i := range 30 {
		r.put(t, fmt.Sprintf("main/empty/%d", i), "")
		_, err := r.client.Client.PutObject(t.Context(), "nowhere", "main/a", bytes.NewReader(nil), 0, minio.PutObjectOptions{})
		if minio.ToErrorResponse(err).Code != minio.NoSuchBucket {
			t.Errorf("put into a dataset that is not there: %v", err)
		}
	}
	if n := len(r.keys(t, "main/empty/", "")); n != 30 {
		t.Errorf("%d objects", n)
	}
}
