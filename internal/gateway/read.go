package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3response"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

const (
	// freeLookups is how many entries one link may lead over before the request pays for more. Links
	// of honest trees lead over fewer.
	freeLookups = 256
	// lookupBytes is the price of one more: a lookup takes as long as the comparison of so many bytes.
	lookupBytes = 32 << 10
	// atOnce is up to which length an answer is read before its first byte is sent, so
	// that damage is told as such.
	atOnce = 1 << 20
)

// nothing is the name of no bytes.
var nothing = digest.Of(nil).String()

// etag is the tag of what an entry holds: the name of its content, the same for the
// same bytes wherever they are.
func etag(e *data.Entry) string {
	if e.Content.IsZero() {
		return `"` + nothing + `"`
	}
	return `"` + e.Content.String() + `"`
}

// kind is the media type of a path, by its ending.
func kind(p string) *string {
	found, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(p)), ";") // in which characters, nobody knows
	if found == "" {
		found = "application/octet-stream"
	}
	return &found
}

// since is from when on a commit's files count as modified: S3 knows whole seconds,
// and a commit the time of none of its files.
func since(v *data.View) time.Time { return v.Commit().Time.Truncate(time.Second) }

// holds refuses what the conditions of a request rule out.
func holds(tag string, when time.Time, match, noneMatch *string, modified, unmodified *time.Time) error {
	if unmodified != nil {
		// versitygw wants the time to be later; in HTTP it may be the same.
		unmodified = new(unmodified.Add(time.Second - 1))
	}
	return backend.EvaluatePreconditions(tag, when, backend.PreConditions{
		IfMatch: match, IfNoneMatch: noneMatch, IfModSince: modified, IfUnmodeSince: unmodified,
	})
}

// find is the file that a key names, and the commit that it is of.
func (g *Gateway) find(ctx context.Context, bucket, key *string) (*data.View, data.Entry, error) {
	p, _, err := g.open(ctx, Get, bucket)
	if err != nil {
		return nil, data.Entry{}, err
	}
	t, err := parse(key)
	if err != nil {
		return nil, data.Entry{}, err
	}
	if t.folder {
		return nil, data.Entry{}, errNoKey
	}
	v, err := g.view(ctx, p, t.version)
	if err != nil {
		return nil, data.Entry{}, g.explain(err)
	}
	var effort tree.Effort // of both tries
	e, err := follow(ctx, v, t.path, &effort)
	if err != nil && !v.Commit().ID.IsZero() {
		// Somebody else may have put it there a moment ago.
		if now, again := g.again(ctx, p, t.version, v); again {
			v = now
			e, err = follow(ctx, v, t.path, &effort)
		}
	}
	return v, e, g.explain(err)
}

// again is where a version is now, if that is elsewhere than it was.
func (g *Gateway) again(ctx context.Context, p *place, version string, was *data.View) (*data.View, bool) {
	known, err := p.heads.read(ctx, time.Now())
	if err != nil {
		return nil, false
	}
	id, ok := headOf(known, version)
	if !ok || id == was.Commit().ID {
		return nil, false
	}
	v, err := g.commit(ctx, p, id)
	return v, err == nil
}

// follow returns the file at a path. It follows a link, over other links too, as the kernel does in a
// checkout. The error is [fs.ErrNotExist] for a link that leads out of the version, or to no file, and
// [tree.ErrWinding] once the links of a request lead over too much.
func follow(ctx context.Context, v *data.View, at string, effort *tree.Effort) (data.Entry, error) {
	e, err := v.Find(ctx, at)
	if err != nil || e.Kind == tree.File {
		return e, err
	}
	none := fmt.Errorf("%q leads to no file: %w", at, fs.ErrNotExist)
	if e.Kind != tree.Link {
		return e, none
	}
	w := &walk{view: v, effort: effort, folder: folderOf(at), rest: e.Target, followed: 1}
	for w.rest != "" {
		if e, err = w.step(ctx); err != nil {
			return e, err
		}
		if e.Kind == tree.File {
			return e, nil
		}
	}
	return e, none
}

// walk is on its way from a link to a file.
type walk struct {
	view   *data.View
	effort *tree.Effort
	// folder was reached, rest is the path from there.
	folder, rest string
	// followed counts links, lookups counts entries.
	followed, lookups int
}

// step goes to the next entry: a folder, or the file at the end.
func (w *walk) step(ctx context.Context) (e data.Entry, err error) {
	name, behind, more := strings.Cut(w.rest, "/")
	w.rest = behind
	switch {
	case name == "" || name == ".":
		return e, nil
	case name == ".." && w.folder == "":
		return e, errNowhere
	case name == "..":
		w.folder = folderOf(w.folder)
		return e, nil
	}
	here := path.Join(w.folder, name)
	if w.lookups++; w.lookups > freeLookups {
		if err := w.effort.Spend(lookupBytes); err != nil {
			return e, err
		}
	}
	if e, err = w.view.Find(ctx, here); err != nil {
		return e, err
	}
	switch {
	case e.Kind == tree.Folder:
		w.folder = here
	case e.Kind == tree.Link && w.followed < tree.MostFollowed:
		w.followed++
		if w.rest = e.Target; more {
			w.rest += "/" + behind
		}
	case e.Kind != tree.File || more: // a file with a slash behind it is not there
		return e, errNowhere
	}
	return e, nil
}

// errNowhere is the error of a link that leads to no file.
var errNowhere = fmt.Errorf("the link leads to no file: %w", fs.ErrNotExist)

// folderOf is the folder of a path; empty: the top.
func folderOf(at string) string { return strings.TrimPrefix(path.Dir("/"+at), "/") }

// HeadObject implements backend.Backend.
func (g *Gateway) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	ctx = g.call(ctx)
	if versioned(in.VersionId) {
		return nil, errNoVersions
	}
	v, e, err := g.find(ctx, in.Bucket, in.Key)
	if err != nil {
		return nil, err
	}
	tag, when := etag(&e), since(v)
	if err := holds(tag, when, in.IfMatch, in.IfNoneMatch, in.IfModifiedSince, in.IfUnmodifiedSince); err != nil {
		return nil, err
	}
	offset, length, part, err := backend.ParseObjectRange(e.Size, text(in.Range))
	if err != nil {
		return nil, err
	}
	bytes := "bytes"
	out := &s3.HeadObjectOutput{ETag: &tag, LastModified: &when, ContentLength: &length, ContentType: kind(e.Path), AcceptRanges: &bytes}
	if part {
		out.ContentRange = rangeOf(offset, length, e.Size)
	}
	return out, nil
}

// GetObject implements backend.Backend.
func (g *Gateway) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	ctx = g.call(ctx)
	if versioned(in.VersionId) {
		return nil, errNoVersions
	}
	v, e, err := g.find(ctx, in.Bucket, in.Key)
	if err != nil {
		return nil, err
	}
	tag, when := etag(&e), since(v)
	if err := holds(tag, when, in.IfMatch, in.IfNoneMatch, in.IfModifiedSince, in.IfUnmodifiedSince); err != nil {
		return nil, err
	}
	offset, length, part, err := backend.ParseObjectRange(e.Size, text(in.Range))
	if err != nil {
		return nil, err
	}
	body, err := g.body(v, e.Path, offset, length)
	if err != nil {
		return nil, g.explain(err)
	}
	bytes := "bytes"
	out := &s3.GetObjectOutput{Body: body, ETag: &tag, LastModified: &when, ContentLength: &length, ContentType: kind(e.Path), AcceptRanges: &bytes}
	if part {
		out.ContentRange = rangeOf(offset, length, e.Size)
	}
	return out, nil
}

// body is a part of a file. It is read as long as the gateway serves, not only as
// long as the call: the server sends it after that.
func (g *Gateway) body(v *data.View, at string, offset, length int64) (io.ReadCloser, error) {
	f, err := v.Open(g.life, at)
	if err != nil {
		return nil, err
	}
	first := make([]byte, min(length, atOnce))
	if _, err := f.ReadAt(first, offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	n := int64(len(first))
	if n == length {
		return io.NopCloser(bytes.NewReader(first)), f.Close()
	}
	rest := io.NewSectionReader(f, offset+n, length-n)
	return reader{io.MultiReader(bytes.NewReader(first), rest), f}, nil
}

type reader struct {
	io.Reader
	io.Closer
}

func rangeOf(offset, length, size int64) *string {
	s := fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, size)
	return &s
}

// GetObjectAttributes implements backend.Backend.
func (g *Gateway) GetObjectAttributes(ctx context.Context, in *s3.GetObjectAttributesInput) (s3response.GetObjectAttributesResponse, error) {
	ctx = g.call(ctx)
	if versioned(in.VersionId) {
		return s3response.GetObjectAttributesResponse{}, errNoVersions
	}
	v, e, err := g.find(ctx, in.Bucket, in.Key)
	if err != nil {
		return s3response.GetObjectAttributesResponse{}, err
	}
	tag, when := backend.TrimEtag(new(etag(&e))), since(v)
	return s3response.GetObjectAttributesResponse{ETag: tag, ObjectSize: &e.Size, LastModified: &when}, nil
}

// versioned says that a request names a version of S3's.
func versioned(id *string) bool { return text(id) != "" && text(id) != "null" }

// text is what a pointer is at; nothing: empty.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
