package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3response"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// most is how many keys a page has at most.
const most = 1000

// object is one key of a listing.
type object struct {
	key  string
	tag  string
	size int64
	when time.Time
}

// keys shows every object whose key is at least from, in order, until see returns
// an error, which it returns.
type keys func(ctx context.Context, from string, see func(object) error) error

// question is what a listing is asked.
type question struct {
	prefix, delimiter string
	// after is the last key or common prefix of the page before, or what the caller
	// wants to begin behind.
	after string
	max   int
}

// page is a part of a listing.
type page struct {
	objects  []object
	prefixes []string
	// more says that there is more, last after which.
	more bool
	last string
}

// errFull ends a page, errSkip goes on behind a common prefix.
var errFull, errSkip = errors.New("the page is full"), errors.New("behind this prefix")

// list is one page of the keys that begin with a prefix; those that have the delimiter
// behind it count once, as what is up to and with it.
func list(ctx context.Context, all keys, q question) (page, error) {
	var p page
	if q.max <= 0 {
		return p, nil
	}
	from := q.prefix
	if q.after >= from && q.after != "" {
		from = q.after + "\x00"
		if common, ok := q.common(q.after); ok && common == q.after {
			from = behind(common)
		}
	}
	for {
		skip := ""
		err := all(ctx, from, func(o object) error {
			if !strings.HasPrefix(o.key, q.prefix) {
				return data.Stop
			}
			if len(p.objects)+len(p.prefixes) == q.max {
				p.more = true
				return errFull
			}
			if common, ok := q.common(o.key); ok {
				p.prefixes, p.last, skip = append(p.prefixes, common), common, common
				return errSkip
			}
			p.objects, p.last = append(p.objects, o), o.key
			return nil
		})
		switch {
		case errors.Is(err, errSkip):
			from = behind(skip)
		case err == nil, errors.Is(err, errFull), errors.Is(err, data.Stop):
			return p, nil
		default:
			return page{}, err
		}
	}
}

// common is the common prefix that a key counts as, if it does.
func (q question) common(key string) (string, bool) {
	if q.delimiter == "" || !strings.HasPrefix(key, q.prefix) {
		return "", false
	}
	i := strings.Index(key[len(q.prefix):], q.delimiter)
	if i < 0 {
		return "", false
	}
	return key[:len(q.prefix)+i+len(q.delimiter)], true
}

// behind is the first key that is behind all that begin with a prefix.
func behind(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return prefix + "\xff"
}

// version is one of a dataset, as listings have it.
type version struct {
	name string
	view *data.View
}

// versions are what a listing with this prefix has to look at: the one that the prefix
// names, or all branches and tags, in the order of their keys.
func (g *Gateway) versions(ctx context.Context, p *place, prefix string) ([]version, error) {
	if name, _, deeper := strings.Cut(prefix, "/"); deeper {
		v, err := g.view(ctx, p, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return []version{{name, v}}, err
	}
	known, err := p.heads.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []version
	for name, id := range known {
		if !strings.HasPrefix(name.Name, prefix) {
			continue
		}
		if at, _ := written(known, name.Name); name.Kind == ref.Branch && at.Kind == ref.Open {
			continue // its open commit is shown
		}
		v, err := g.commit(ctx, p, id)
		if err != nil {
			return nil, err
		}
		all = append(all, version{name.Name, v})
	}
	slices.SortFunc(all, func(a, b version) int { return strings.Compare(a.name+"/", b.name+"/") })
	return all, nil
}

// across are the keys of several versions, each below its name, at least up to the last one that begins
// with a prefix.
func across(all []version, prefix string) keys {
	var effort tree.Effort // of the whole listing
	return func(ctx context.Context, from string, see func(object) error) error {
		for _, v := range all {
			start := ""
			if top := v.name + "/"; strings.HasPrefix(from, top) {
				start = from[len(top):]
			} else if from > top {
				continue
			}
			if err := within(v, prefix, &effort)(ctx, start, see); err != nil {
				return err
			}
		}
		return nil
	}
}

// within are the keys of one version, at least up to the last one that begins with a prefix. A link has
// the size of the file that it leads to, and is left out where it leads to none.
func within(v version, prefix string, effort *tree.Effort) keys {
	return func(ctx context.Context, from string, see func(object) error) error {
		when := since(v.view)
		var ended error
		err := v.view.From(ctx, from, func(e *data.Entry) error {
			it := *e
			if !strings.HasPrefix(v.name+"/"+e.Path, prefix) {
				return data.Stop // before a link is followed for nothing
			}
			if it.Kind == tree.Link {
				file, err := follow(ctx, v.view, e.Path, effort)
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err != nil {
					return err
				}
				it = file
			}
			if ended = see(object{key: v.name + "/" + e.Path, tag: etag(&it), size: it.Size, when: when}); ended != nil {
				return data.Stop
			}
			return nil
		})
		if err == nil {
			err = ended
		}
		return err
	}
}

// page answers a listing of a bucket.
func (g *Gateway) page(ctx context.Context, bucket *string, q question) (page, error) {
	p, _, err := g.open(ctx, Get, bucket)
	if err != nil {
		return page{}, err
	}
	all, err := g.versions(ctx, p, q.prefix)
	if err != nil {
		return page{}, g.explain(err)
	}
	found, err := list(ctx, across(all, q.prefix), q)
	return found, g.explain(err)
}

func limit(asked *int32) int {
	if asked == nil {
		return most
	}
	return min(int(*asked), most)
}

// contents are a page as versitygw writes it, with encoded names.
func (p page) contents(encode func(string) string) ([]s3response.Object, []types.CommonPrefix) {
	objects := make([]s3response.Object, len(p.objects))
	for i := range p.objects {
		o := &p.objects[i]
		objects[i] = s3response.Object{
			Key: new(encode(o.key)), ETag: &o.tag, Size: &o.size, LastModified: &o.when, StorageClass: types.ObjectStorageClassStandard,
		}
	}
	prefixes := make([]types.CommonPrefix, len(p.prefixes))
	for i := range p.prefixes {
		prefixes[i].Prefix = new(encode(p.prefixes[i]))
	}
	return objects, prefixes
}

// ListObjects implements backend.Backend.
func (g *Gateway) ListObjects(ctx context.Context, in *s3.ListObjectsInput) (s3response.ListObjectsResult, error) {
	ctx = g.call(ctx)
	q := question{prefix: text(in.Prefix), delimiter: text(in.Delimiter), after: text(in.Marker), max: limit(in.MaxKeys)}
	p, err := g.page(ctx, in.Bucket, q)
	if err != nil {
		return s3response.ListObjectsResult{}, err
	}
	encode, kind := encoder(ctx)
	out := s3response.ListObjectsResult{
		Name: in.Bucket, Prefix: encodeText(in.Prefix, encode), Marker: encodeText(in.Marker, encode), MaxKeys: in.MaxKeys,
		Delimiter: encodeText(in.Delimiter, encode), IsTruncated: &p.more, EncodingType: types.EncodingType(kind),
	}
	if out.Contents, out.CommonPrefixes = p.contents(encode); p.more {
		out.NextMarker = new(encode(p.last))
	}
	return out, nil
}

// A continuation token is the last key in base64: a key may have characters that XML
// cannot, and S3 encodes no tokens.
func token(key string) *string { return new(base64.RawURLEncoding.EncodeToString([]byte(key))) }

// last is the key of a continuation token.
func last(token *string) (string, error) {
	key, err := base64.RawURLEncoding.DecodeString(text(token))
	if err != nil {
		return "", refusal("InvalidArgument", 400, "The continuation token provided is incorrect: %q is not one of this gateway", text(token))
	}
	return string(key), nil
}

// ListObjectsV2 implements backend.Backend.
func (g *Gateway) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (s3response.ListObjectsV2Result, error) {
	ctx = g.call(ctx)
	from, err := last(in.ContinuationToken)
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	q := question{
		prefix: text(in.Prefix), delimiter: text(in.Delimiter), max: limit(in.MaxKeys),
		after: max(from, text(in.StartAfter)),
	}
	p, err := g.page(ctx, in.Bucket, q)
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	encode, kind := encoder(ctx)
	count := int32(len(p.objects) + len(p.prefixes))
	out := s3response.ListObjectsV2Result{
		Name: in.Bucket, Prefix: encodeText(in.Prefix, encode), StartAfter: encodeText(in.StartAfter, encode),
		ContinuationToken: in.ContinuationToken, MaxKeys: in.MaxKeys, Delimiter: encodeText(in.Delimiter, encode),
		IsTruncated: &p.more, KeyCount: &count, EncodingType: types.EncodingType(kind),
	}
	if out.Contents, out.CommonPrefixes = p.contents(encode); p.more {
		out.NextContinuationToken = token(p.last)
	}
	return out, nil
}
