package gateway

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// ListBuckets implements backend.Backend: the datasets of the caller's namespace.
func (g *Gateway) ListBuckets(ctx context.Context, in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	ctx = g.call(ctx)
	grant, err := g.allow(ctx, List, "")
	if err != nil {
		return s3response.ListAllMyBucketsResult{}, err
	}
	all, err := g.o.Catalog.Datasets(ctx, grant.Namespace)
	if err != nil {
		return s3response.ListAllMyBucketsResult{}, g.explain(err)
	}
	result := s3response.ListAllMyBucketsResult{Owner: s3response.CanonicalUser{ID: grant.User, DisplayName: grant.User}, Prefix: in.Prefix}
	for _, d := range all {
		if !strings.HasPrefix(d.Name, in.Prefix) || d.Name <= in.ContinuationToken {
			continue
		}
		list := &result.Buckets.Bucket
		if in.MaxBuckets > 0 && len(*list) == int(in.MaxBuckets) {
			result.ContinuationToken = (*list)[len(*list)-1].Name
			break
		}
		*list = append(*list, s3response.ListAllMyBucketsEntry{Name: d.Name, CreationDate: d.Made})
	}
	return result, nil
}

// HeadBucket implements backend.Backend.
func (g *Gateway) HeadBucket(ctx context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	ctx = g.call(ctx)
	_, _, err := g.open(ctx, Get, in.Bucket)
	return &s3.HeadBucketOutput{}, err
}

// GetBucketAcl implements backend.Backend: versitygw asks it before everything else,
// and hears of buckets that are not there.
func (g *Gateway) GetBucketAcl(ctx context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	ctx = g.call(ctx)
	_, _, err := g.open(ctx, Get, in.Bucket)
	return nil, err
}

// CreateBucket implements backend.Backend: it is refused.
func (*Gateway) CreateBucket(_ context.Context, in *s3.CreateBucketInput, _ []byte) error {
	return refusal("NotImplemented", 501, "datasets are not made through S3: muster data create %s makes it", *in.Bucket)
}

// DeleteBucket implements backend.Backend: it is refused.
func (*Gateway) DeleteBucket(_ context.Context, bucket string) error {
	return refusal("NotImplemented", 501, "datasets are not removed through S3: muster data rm %s removes it", bucket)
}

// GetBucketPolicy implements backend.Backend: Kubernetes decides who may do what.
func (*Gateway) GetBucketPolicy(_ context.Context, bucket string) ([]byte, error) {
	return nil, s3err.GetBucketErr(s3err.ErrNoSuchBucketPolicy, bucket)
}

// GetBucketCors implements backend.Backend.
func (*Gateway) GetBucketCors(_ context.Context, bucket string) ([]byte, error) {
	return nil, s3err.GetBucketErr(s3err.ErrNoSuchCORSConfiguration, bucket)
}

// GetBucketTagging implements backend.Backend.
func (*Gateway) GetBucketTagging(_ context.Context, bucket string) (map[string]string, error) {
	return nil, s3err.GetBucketErr(s3err.ErrBucketTaggingNotFound, bucket)
}

// GetBucketVersioning implements backend.Backend: versions are commits here, and none
// of S3's.
func (*Gateway) GetBucketVersioning(context.Context, string) (s3response.GetBucketVersioningOutput, error) {
	return s3response.GetBucketVersioningOutput{}, nil
}

// GetObjectLockConfiguration implements backend.Backend.
func (*Gateway) GetObjectLockConfiguration(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrObjectLockConfigurationNotFound)
}

// GetObjectTagging implements backend.Backend: there are no tags.
func (g *Gateway) GetObjectTagging(ctx context.Context, bucket, key, _ string) (map[string]string, error) {
	ctx = g.call(ctx)
	if _, _, err := g.find(ctx, &bucket, &key); err != nil {
		return nil, err
	}
	return map[string]string{}, nil
}

// PutObjectTagging implements backend.Backend: it is refused.
func (*Gateway) PutObjectTagging(context.Context, string, string, string, map[string]string) error {
	return unkept("a tag")
}

// PutBucketVersioning implements backend.Backend: it is refused.
func (*Gateway) PutBucketVersioning(context.Context, string, types.BucketVersioningStatus) error {
	return errNoVersions
}
