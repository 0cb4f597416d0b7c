package gateway

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/muster-dev/muster/internal/gateway/upload"
)

// CreateMultipartUpload implements backend.Backend.
func (g *Gateway) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	ctx = g.call(ctx)
	var out s3response.InitiateMultipartUploadResult
	p, grant, t, err := g.writable(ctx, in.Bucket, in.Key)
	if err == nil {
		err = kept(in.Tagging, in.ContentEncoding, in.WebsiteRedirectLocation)
	}
	if err == nil && t.folder {
		err = refusal("InvalidRequest", 400, "%s is a folder, by its slash: a folder has no bytes", *in.Key)
	}
	if err != nil {
		return out, err
	}
	id, err := p.home.uploads.Begin(ctx, upload.Upload{
		Namespace: p.name.namespace, Dataset: p.name.dataset, Branch: t.version, Path: t.path, User: grant.User, Begun: time.Now(),
	})
	if err != nil {
		return out, g.explain(err)
	}
	return s3response.InitiateMultipartUploadResult{Bucket: *in.Bucket, Key: *in.Key, UploadId: id}, nil
}

// upload is an upload that the caller may go on with.
func (g *Gateway) upload(ctx context.Context, bucket, key, id *string) (*place, Grant, upload.Upload, error) {
	p, grant, t, err := g.writable(ctx, bucket, key)
	if err != nil {
		return nil, grant, upload.Upload{}, err
	}
	u, err := p.home.uploads.Find(ctx, text(id))
	if err == nil && (placeName{u.Namespace, u.Dataset} != p.name || u.Branch != t.version || u.Path != t.path) {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = s3err.GetNoSuchUploadErr(text(id))
	}
	return p, grant, u, g.explain(err)
}

// UploadPart implements backend.Backend.
func (g *Gateway) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	ctx = g.call(ctx)
	p, _, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return nil, err
	}
	if in.ContentLength == nil || *in.ContentLength < 0 {
		return nil, s3err.GetAPIError(s3err.ErrMissingContentLength)
	}
	body, err := verified(arriving(ctx, in.Body), partSums(in))
	if err != nil {
		return nil, err
	}
	kept, err := g.keepPart(ctx, p, u.ID, int(*in.PartNumber), *in.ContentLength, body)
	if err != nil {
		return nil, g.explain(err)
	}
	return &s3.UploadPartOutput{
		ETag: new(`"` + kept.Tag + `"`), ChecksumCRC32: in.ChecksumCRC32, ChecksumCRC32C: in.ChecksumCRC32C,
		ChecksumCRC64NVME: in.ChecksumCRC64NVME, ChecksumSHA1: in.ChecksumSHA1, ChecksumSHA256: in.ChecksumSHA256,
	}, nil
}

// keepPart keeps a part, if the namespace may keep as much.
func (g *Gateway) keepPart(ctx context.Context, p *place, id string, number int, size int64, body io.Reader) (upload.Part, error) {
	if err := g.o.Stores.Reserve(ctx, p.name.namespace, size); err != nil {
		return upload.Part{}, err
	}
	return p.home.uploads.Put(ctx, id, number, size, &whole{from: body, left: size, stop: func() { cease(ctx) }})
}

// UploadPartCopy implements backend.Backend.
func (g *Gateway) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	ctx = g.call(ctx)
	var out s3response.CopyPartResult
	p, _, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return out, err
	}
	v, e, err := g.origin(ctx, in.CopySource, in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince)
	if err != nil {
		return out, err
	}
	offset, length, err := backend.ParseCopySourceRange(e.Size, text(in.CopySourceRange))
	if err != nil {
		return out, err
	}
	length = min(length, e.Size-offset)
	body, err := g.body(v, e.Path, offset, length)
	if err != nil {
		return out, g.explain(err)
	}
	kept, err := g.keepPart(ctx, p, u.ID, int(*in.PartNumber), length, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return out, g.explain(err)
	}
	return s3response.CopyPartResult{ETag: new(`"` + kept.Tag + `"`), LastModified: kept.Stored}, nil
}

// CompleteMultipartUpload implements backend.Backend. When it returns, the object is
// durable.
func (g *Gateway) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	ctx = g.call(ctx)
	var out s3response.CompleteMultipartUploadResult
	p, grant, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return out, "", err
	}
	there, err := p.home.uploads.Named(ctx, u.ID, numbers(in.MultipartUpload.Parts))
	if err != nil {
		return out, "", g.explain(err)
	}
	wanted, size, err := pick(u.ID, there, in.MultipartUpload.Parts)
	if err != nil {
		return out, "", err
	}
	if in.MpuObjectSize != nil && *in.MpuObjectSize != size {
		return out, "", refusal("InvalidRequest", 400, "the parts have %d bytes, and the request says %d", size, *in.MpuObjectSize)
	}
	c := &change{path: u.Path, author: grant.User, fits: putFits(u.Path, clone(in.IfMatch), clone(in.IfNoneMatch))}
	body := p.home.uploads.Open(context.WithoutCancel(g.life), wanted)
	// Its parts were counted when they came, and go: it takes no more room than they.
	tag, err := g.put(ctx, p, u.Branch, c, body, size, 0)
	err = errors.Join(err, body.Close())
	if err != nil {
		return out, "", g.explain(err)
	}
	g.endUpload(p, u.ID, wanted)
	return s3response.CompleteMultipartUploadResult{Bucket: in.Bucket, Key: in.Key, ETag: &tag}, "", nil
}

// endUpload ends an upload whose object is there. Its bytes go after the answer; what
// is in the way of that is left to the sweep.
func (g *Gateway) endUpload(p *place, id string, parts []upload.Part) {
	ctx := context.WithoutCancel(g.life) // also where the gateway ends meanwhile
	if err := p.home.uploads.End(ctx, id); err != nil {
		g.o.Log.Warn("ending an upload that is complete", "err", err)
		return
	}
	g.work.Go(func() {
		if err := p.home.uploads.Clear(ctx, id, parts); err != nil {
			g.o.Log.Warn("removing the parts of an upload that is complete", "err", err)
		}
	})
}

// numbers are those of the parts that a client names.
func numbers(said []types.CompletedPart) []int {
	var all []int
	for _, s := range said {
		if s.PartNumber != nil && 0 < *s.PartNumber && *s.PartNumber <= upload.MaxParts {
			all = append(all, int(*s.PartNumber))
		}
	}
	return all
}

// pick are the parts that a client says an object is of.
func pick(id string, there []upload.Part, said []types.CompletedPart) ([]upload.Part, int64, error) {
	if len(said) == 0 {
		return nil, 0, s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	var picked []upload.Part
	size, before := int64(0), int32(0)
	for _, s := range said {
		number, tag := int32(0), strings.Trim(text(s.ETag), `"`)
		if s.PartNumber != nil {
			number = *s.PartNumber
		}
		if number <= before {
			return nil, 0, s3err.GetAPIError(s3err.ErrInvalidPartOrder)
		}
		before = number
		i := slices.IndexFunc(there, func(p upload.Part) bool { return p.Number == int(number) })
		if i < 0 || there[i].Tag != tag {
			return nil, 0, s3err.GetInvalidPartErr(id, number, tag)
		}
		picked = append(picked, there[i])
		size += there[i].Size
	}
	return picked, size, nil
}

// AbortMultipartUpload implements backend.Backend.
func (g *Gateway) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	ctx = g.call(ctx)
	p, _, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return err
	}
	parts, err := p.home.uploads.Parts(ctx, u.ID)
	if err == nil {
		err = p.home.uploads.End(ctx, u.ID)
	}
	if err == nil {
		err = p.home.uploads.Clear(ctx, u.ID, parts)
	}
	return g.explain(err)
}

// ListParts implements backend.Backend.
func (g *Gateway) ListParts(ctx context.Context, in *s3.ListPartsInput) (s3response.ListPartsResult, error) {
	ctx = g.call(ctx)
	var out s3response.ListPartsResult
	p, grant, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return out, err
	}
	there, err := p.home.uploads.Parts(ctx, u.ID)
	if err != nil {
		return out, g.explain(err)
	}
	out = s3response.ListPartsResult{
		Bucket: *in.Bucket, Key: *in.Key, UploadID: u.ID, StorageClass: types.StorageClassStandard, MaxParts: limit(in.MaxParts),
		Owner: s3response.Owner{ID: grant.User}, Initiator: s3response.Initiator{ID: u.User},
	}
	if out.PartNumberMarker, err = strconv.Atoi("0" + text(in.PartNumberMarker)); err != nil {
		return out, refusal("InvalidArgument", 400, "part-number-marker %q is no number", text(in.PartNumberMarker))
	}
	for _, p := range there {
		if p.Number <= out.PartNumberMarker {
			continue
		}
		if len(out.Parts) == out.MaxParts {
			out.IsTruncated = true
			break
		}
		out.Parts = append(out.Parts, s3response.Part{PartNumber: p.Number, ETag: `"` + p.Tag + `"`, Size: p.Size, LastModified: p.Stored})
		out.NextPartNumberMarker = p.Number
	}
	return out, nil
}

// ListMultipartUploads implements backend.Backend.
func (g *Gateway) ListMultipartUploads(ctx context.Context, in *s3.ListMultipartUploadsInput) (s3response.ListMultipartUploadsResult, error) {
	ctx = g.call(ctx)
	out := s3response.ListMultipartUploadsResult{
		Bucket: *in.Bucket, Prefix: text(in.Prefix), Delimiter: text(in.Delimiter), KeyMarker: text(in.KeyMarker),
		UploadIDMarker: text(in.UploadIdMarker), MaxUploads: limit(in.MaxUploads),
	}
	p, _, err := g.open(ctx, Update, in.Bucket)
	if err != nil {
		return out, err
	}
	all, err := p.home.uploads.All(ctx, p.name.namespace, p.name.dataset)
	if err != nil {
		return out, g.explain(err)
	}
	q := question{prefix: out.Prefix, delimiter: out.Delimiter}
	for _, u := range all {
		key := u.Key()
		if !strings.HasPrefix(key, q.prefix) || key < out.KeyMarker || key == out.KeyMarker && (out.UploadIDMarker == "" || u.ID <= out.UploadIDMarker) {
			continue
		}
		common, folded := q.common(key)
		if folded && slices.Contains(out.CommonPrefixes, s3response.CommonPrefix{Prefix: common}) {
			continue
		}
		if len(out.Uploads)+len(out.CommonPrefixes) == out.MaxUploads {
			out.IsTruncated = true
			break
		}
		if out.NextKeyMarker, out.NextUploadIDMarker = key, u.ID; folded {
			out.CommonPrefixes = append(out.CommonPrefixes, s3response.CommonPrefix{Prefix: common})
			continue
		}
		who := s3response.Owner{ID: u.User}
		out.Uploads = append(out.Uploads, s3response.Upload{
			Key: key, UploadID: u.ID, Initiated: u.Begun, Owner: who, Initiator: s3response.Initiator(who), StorageClass: types.StorageClassStandard,
		})
	}
	encodeUploads(ctx, &out)
	return out, nil
}

// encodeUploads encodes the names in a list of uploads.
func encodeUploads(ctx context.Context, out *s3response.ListMultipartUploadsResult) {
	encode, kind := encoder(ctx)
	out.EncodingType = kind
	for _, name := range []*string{&out.Prefix, &out.Delimiter, &out.KeyMarker, &out.NextKeyMarker} {
		*name = encode(*name)
	}
	for i := range out.Uploads {
		out.Uploads[i].Key = encode(out.Uploads[i].Key)
	}
	for i := range out.CommonPrefixes {
		out.CommonPrefixes[i].Prefix = encode(out.CommonPrefixes[i].Prefix)
	}
}
