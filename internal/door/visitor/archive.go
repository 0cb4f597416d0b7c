package visitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/muster-dev/muster/internal/answer/archivedlog"
)

// Archived lists the names of the pods of a job, by its UID, that are gone and whose output
// is kept. fs.ErrNotExist: no output of any is kept there.
func (v *Visitor) Archived(ctx context.Context, namespace, job string) (pods []string, err error) {
	err = v.Ask(ctx, namespace, "/archive/"+url.PathEscape(job), nil, &pods)
	return pods, absent(err)
}

// ArchivedLog reads the output of such a pod, every line with its time. fs.ErrNotExist: none
// is kept.
func (v *Visitor) ArchivedLog(ctx context.Context, namespace, job string, kept archivedlog.Kept) (io.ReadCloser, error) {
	query := url.Values{"which": {kept.Which.String()}, "container": {kept.Container}, "tail": {strconv.Itoa(max(-1, kept.Tail))}}
	if !kept.Since.IsZero() {
		query.Set("since", kept.Since.UTC().Format(time.RFC3339Nano))
	}
	path := "/archive/" + url.PathEscape(job) + "/" + url.PathEscape(kept.Pod) + "?" + query.Encode()
	got, err := v.knock(ctx, request{method: http.MethodGet, namespace: namespace, path: path})
	if err != nil {
		return nil, absent(err)
	}
	return got.Body, nil
}

// absent makes the refusal of a door that has no such output fs.ErrNotExist.
func absent(err error) error {
	if refused, is := errors.AsType[*Refused](err); is && refused.Status == http.StatusNotFound {
		return fmt.Errorf("%w: %s", fs.ErrNotExist, refused.Text)
	}
	return err
}
