package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// writable is the branch that a key is to be written to, by whom.
func (g *Gateway) writable(ctx context.Context, bucket, key *string) (*place, Grant, target, error) {
	p, grant, err := g.open(ctx, Update, bucket)
	if err != nil {
		return nil, grant, target{}, err
	}
	t, err := parse(key)
	if err != nil {
		return nil, grant, target{}, err
	}
	known, err := p.heads.List(ctx)
	if err == nil && !branchIn(known, t.version) {
		known, err = p.heads.read(ctx, time.Now()) // it may have been made a moment ago
	}
	if err != nil {
		return nil, grant, target{}, g.explain(err)
	}
	_, tag := known[ref.Name{Kind: ref.Tag, Name: t.version}]
	switch {
	case tag:
		err = refusal("InvalidRequest", 400, "%s is a tag, and does not move: write to a branch, or make one there (muster data branch %s@%s NAME)", t.version, *bucket, t.version)
	case branchIn(known, t.version) || t.version == data.DefaultBranch:
	case hexadecimal(t.version) || strings.Contains(t.version, "~"):
		err = refusal("InvalidRequest", 400, "%s is a commit, and never changes: write to a branch, or make one there (muster data branch %s@%s NAME)", t.version, *bucket, t.version)
	default:
		err = refusal("InvalidRequest", 400, "dataset %s has no branch %s: muster data branch %s %s makes one", *bucket, t.version, *bucket, t.version)
	}
	return p, grant, t, err
}

// branchIn says whether there is a branch, or will be once its open commit is closed.
func branchIn(known map[ref.Name]digest.ID, name string) bool {
	_, at := written(known, name)
	return !at.IsZero()
}

// room refuses a file where a folder is, or below a file; else it is what is at the
// path, nil where nothing is.
func room(ctx context.Context, on *data.View, path string) (*data.Entry, error) {
	if on == nil {
		return nil, nil
	}
	for at := path; at != ""; at = parent(at) {
		e, err := on.Find(ctx, at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case at == path && e.Kind == tree.Folder:
			return nil, refusal("InvalidRequest", 409, "%q is a folder: remove what is below it first", path)
		case at == path:
			return &e, nil
		case e.Kind == tree.Folder:
			return nil, nil
		}
		return nil, refusal("InvalidRequest", 409, "%q is a file, so that nothing can be below it: remove it first", at)
	}
	return nil, nil
}

// putFits is the condition of a put.
func putFits(path string, match, noneMatch *string) func(context.Context, *data.View) error {
	return func(ctx context.Context, on *data.View) error {
		now, err := room(ctx, on, path)
		if err != nil || match == nil && noneMatch == nil {
			return err
		}
		tag := ""
		if now != nil {
			tag = etag(now)
		}
		return backend.EvaluateObjectPutPreconditions(tag, match, noneMatch, now != nil)
	}
}

// PutObject implements backend.Backend. When it returns, the object is durable.
func (g *Gateway) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	ctx = g.call(ctx)
	var out s3response.PutObjectOutput
	p, grant, t, err := g.writable(ctx, in.Bucket, in.Key)
	if err != nil {
		return out, err
	}
	if err := kept(in.Tagging, in.ContentEncoding, in.WebsiteRedirectLocation); err != nil {
		return out, err
	}
	if in.ObjectLockMode != "" || in.ObjectLockLegalHoldStatus != "" {
		return out, unkept("a lock")
	}
	body, err := verified(arriving(ctx, in.Body), sums(&in))
	if err != nil {
		return out, err
	}
	length := *in.ContentLength
	if length < 0 {
		return out, refusal("InvalidArgument", 400, "a body of %d bytes cannot be", length)
	}
	out.Size = &length
	if t.folder {
		return out, g.marker(t, body, &out)
	}
	c := &change{path: t.path, author: grant.User, fits: putFits(t.path, clone(in.IfMatch), clone(in.IfNoneMatch))}
	if out.ETag, err = g.put(ctx, p, t.version, c, body, length, length); err != nil {
		return out, g.explain(err)
	}
	out.ChecksumCRC32, out.ChecksumCRC32C, out.ChecksumCRC64NVME = in.ChecksumCRC32, in.ChecksumCRC32C, in.ChecksumCRC64NVME
	out.ChecksumSHA1, out.ChecksumSHA256 = in.ChecksumSHA1, in.ChecksumSHA256
	return out, nil
}

// marker takes what S3 clients make of an empty folder. Folders are there when
// something is in them, so there is nothing to keep.
func (g *Gateway) marker(t target, body io.Reader, out *s3response.PutObjectOutput) error {
	n, err := io.Copy(io.Discard, body)
	if err != nil {
		return g.explain(err)
	}
	if n > 0 {
		return refusal("InvalidRequest", 400, "%s/%s/ is a folder, by its slash: a folder has no bytes", t.version, t.path)
	}
	out.ETag = `"` + nothing + `"`
	return nil
}

// put stores a body and waits for its commit; it returns the object's tag. By it the
// namespace keeps so many bytes more than are counted already.
func (g *Gateway) put(ctx context.Context, p *place, branch string, c *change, body io.Reader, length, more int64) (string, error) {
	if length > data.MaxContent {
		if err := g.enter(ctx, g.long, p.name.namespace); err != nil {
			return "", err
		}
	}
	if more > 0 {
		if err := g.o.Stores.Reserve(ctx, p.name.namespace, more); err != nil {
			return "", err
		}
	}
	if length > data.MaxContent {
		return g.putLong(p, branch, c, body, length)
	}
	content := g.bodies.take(int(length))
	if _, err := io.ReadFull(body, content); err != nil {
		return "", incomplete(err)
	}
	// The end is where sums are compared.
	if n, err := io.Copy(io.Discard, body); err != nil || n > 0 {
		return "", incomplete(errors.Join(err, ctx.Err()))
	}
	c.content = p.home.store.Content(c.path, content) // here, where the lane does not wait for it
	return etag(&data.Entry{Content: c.content.Name}), g.commitAll(p, branch, c)[0]
}

// incomplete says that a body was not as long as it was said to be.
func incomplete(err error) error {
	var api s3err.S3Error
	if errors.As(err, &api) {
		return err
	}
	return refusal("IncompleteBody", 400, "the body is not as long as its request says: %v", err)
}

// kept refuses what an object has no place for and what would change its meaning.
func kept(tagging, encoding, redirect *string) error {
	for part := range strings.SplitSeq(text(encoding), ",") {
		if part = strings.TrimSpace(part); part != "" && part != "aws-chunked" && part != "identity" {
			return unkept("a Content-Encoding (" + part + ")")
		}
	}
	switch {
	case text(tagging) != "":
		return unkept("a tag")
	case text(redirect) != "":
		return unkept("a redirect")
	}
	return nil
}

func clone(s *string) *string {
	if s == nil {
		return nil
	}
	return new(strings.Clone(*s))
}

// DeleteObject implements backend.Backend.
func (g *Gateway) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	ctx = g.call(ctx)
	if versioned(in.VersionId) {
		return nil, errNoVersions
	}
	p, grant, t, err := g.writable(ctx, in.Bucket, in.Key)
	if err != nil || t.folder {
		return &s3.DeleteObjectOutput{}, err
	}
	return &s3.DeleteObjectOutput{}, g.explain(g.commitAll(p, t.version, removal(t, grant.User, in.IfMatch, in.IfMatchSize, in.IfMatchLastModifiedTime))[0])
}

// removal removes a path that meets the conditions. Without conditions the path may be missing, as
// in S3.
func removal(t target, author string, match *string, size *int64, modified *time.Time) *change {
	when := backend.ObjectDeletePreconditions{IfMatchSize: size, IfMatchLastModTime: modified}
	if match != nil && *match != "*" { // "*" is any file
		when.IfMatch = new(strings.Trim(strings.Clone(*match), `"`))
	}
	return &change{path: t.path, author: author, remove: true, fits: func(ctx context.Context, on *data.View) error {
		switch {
		case match == nil && size == nil && modified == nil:
			return nil
		case on == nil:
			return errNoKey
		}
		e, err := follow(ctx, on, t.path, &tree.Effort{})
		if err != nil {
			return err
		}
		return backend.EvaluateObjectDeletePreconditions(etag(&e), since(on), e.Size, when)
	}}
}

// DeleteObjects implements backend.Backend: all of it is one commit for each branch.
func (g *Gateway) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	ctx = g.call(ctx)
	var out s3response.DeleteResult
	if _, _, err := g.open(ctx, Update, in.Bucket); err != nil {
		return out, err
	}
	type wanted struct {
		place   *place
		keys    []*string
		changes []*change
	}
	branches := map[string]*wanted{}
	fail := func(key *string, err error) {
		base := s3err.GetAPIError(s3err.ErrInternalError)
		if api, ok := errors.AsType[s3err.S3Error](g.explain(err)); ok {
			base = api.BaseError()
		}
		out.Error = append(out.Error, types.Error{Key: key, Code: &base.Code, Message: &base.Description})
	}
	for _, o := range in.Delete.Objects {
		p, grant, t, err := g.writable(ctx, in.Bucket, o.Key)
		if err == nil && versioned(o.VersionId) {
			err = errNoVersions
		}
		switch {
		case err != nil:
			fail(o.Key, err)
			continue
		case t.folder:
			out.Deleted = append(out.Deleted, types.DeletedObject{Key: o.Key})
			continue
		}
		b := branches[t.version]
		if b == nil {
			b = &wanted{place: p}
			branches[t.version] = b
		}
		b.keys, b.changes = append(b.keys, o.Key), append(b.changes, removal(t, grant.User, o.ETag, o.Size, o.LastModifiedTime))
	}
	for branch, b := range branches {
		for i, err := range g.commitAll(b.place, branch, b.changes...) {
			if err != nil {
				fail(b.keys[i], err)
				continue
			}
			out.Deleted = append(out.Deleted, types.DeletedObject{Key: b.keys[i]})
		}
	}
	return out, nil
}

// CopyObject implements backend.Backend: no byte is read.
func (g *Gateway) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	ctx = g.call(ctx)
	var out s3response.CopyObjectOutput
	v, e, err := g.origin(ctx, in.CopySource, in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince)
	if err != nil {
		return out, err
	}
	p, grant, t, err := g.writable(ctx, in.Bucket, in.Key)
	if err == nil {
		err = kept(in.Tagging, in.ContentEncoding, in.WebsiteRedirectLocation)
	}
	if err != nil {
		return out, err
	}
	if t.folder {
		return out, refusal("InvalidRequest", 400, "%s is a folder, by its slash: a file cannot be copied to it", *in.Key)
	}
	c := &change{path: t.path, author: grant.User, from: &source{v, e.Path}, fits: putFits(t.path, nil, nil)}
	if err := g.commitAll(p, t.version, c)[0]; err != nil {
		return out, g.explain(err)
	}
	out.CopyObjectResult = &s3response.CopyObjectResult{ETag: new(etag(&e)), LastModified: new(time.Now().Truncate(time.Second))}
	return out, nil
}

// origin is the file that is to be copied.
func (g *Gateway) origin(ctx context.Context, from, match, noneMatch *string, modified, unmodified *time.Time) (*data.View, data.Entry, error) {
	bucket, key, id, err := backend.ParseCopySource(*from)
	if err != nil {
		return nil, data.Entry{}, err
	}
	if versioned(&id) {
		return nil, data.Entry{}, errNoVersions
	}
	v, e, err := g.find(ctx, &bucket, &key)
	if err != nil {
		return nil, data.Entry{}, err
	}
	if err := holds(etag(&e), since(v), match, noneMatch, modified, unmodified); err != nil {
		if errors.Is(err, s3err.GetAPIError(s3err.ErrNotModified)) {
			err = s3err.GetPreconditionFailedErr(s3err.ConditionIfNoneMatch)
		}
		return nil, data.Entry{}, err
	}
	return v, e, nil
}

// empty is a body of nothing.
func empty(r io.Reader) io.Reader {
	if r == nil {
		return bytes.NewReader(nil)
	}
	return r
}
