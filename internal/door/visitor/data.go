package visitor

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/muster-dev/muster/internal/data/backend"
)

// Data are the objects of the store of a namespace, as far as the door lets who asks
// at them: who speaks for the namespace reads, and stores what is new; the agent of a
// node on which a pod of the namespace names data reads packs and commits by their
// keys. Leases are removed by who has put them, and nothing else is: collections are
// the manager's.
func (v *Visitor) Data(namespace string) *backend.Remote {
	return backend.NewRemote(func(ctx context.Context, q backend.Question) (*http.Response, error) {
		r := request{method: q.Method, namespace: namespace, path: "/data/" + q.Key, span: q.Range, steady: true}
		if q.Key == "" {
			r.path = "/data?prefix=" + url.QueryEscape(q.Prefix)
		}
		if q.Method == http.MethodPut {
			r.kind, r.sized, r.length = "application/octet-stream", true, int64(len(q.Content))
			r.body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.Content)), nil }
		}
		return v.knock(ctx, r)
	})
}
