package gateway

import (
	"context"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
)

// Headers by which a request asks for more than a dataset keeps. SDKs that sign in the
// query string put some of them there.
const (
	headerACL        = "X-Amz-Acl"
	headerGrant      = "X-Amz-Grant-"
	headerEncryption = "X-Amz-Server-Side-Encryption"
	headerCopyKey    = "X-Amz-Copy-Source-Server-Side-Encryption"
	headerLock       = "X-Amz-Object-Lock-"
	headerTags       = "X-Amz-Tagging"
	headerRedirect   = "X-Amz-Website-Redirect-Location"
)

// demand checks the headers of a request that versitygw does not pass on. It notes encoded listings
// in the visit, and refuses features that a dataset does not have.
func demand(ctx fiber.Ctx, v *visit) error {
	query := ctx.Request().URI().QueryArgs()
	if query.Has("AWSAccessKeyId") && query.Has("Signature") || strings.HasPrefix(ctx.Get(fiber.HeaderAuthorization), "AWS ") {
		return refusal("InvalidRequest", 400, "Signature version 2 is not supported: it signs neither the host nor all parameters, and its URLs may be valid for ever. "+
			`Please use AWS4-HMAC-SHA256, such as boto3.client("s3", config=botocore.config.Config(signature_version="s3v4"))`)
	}
	if query.Has("encoding-type") {
		if kind := string(query.Peek("encoding-type")); kind != "url" {
			return refusal("InvalidArgument", 400, "Invalid Encoding Method specified in Request: %q is given, and only url is known", kind)
		}
		v.encoded = true
	}
	for name, value := range ctx.Request().Header.All() {
		if err := unwanted(string(name), string(value)); err != nil {
			return err
		}
	}
	for name, value := range query.All() {
		if err := unwanted(string(name), string(value)); err != nil {
			return err
		}
	}
	return nil
}

// unwanted refuses a header for a feature that objects do not have.
func unwanted(name, value string) error {
	has := func(prefix string) bool {
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
	}
	switch {
	case strings.EqualFold(name, headerACL):
		// Both are so by default: Kubernetes' rights alone let a user read.
		if value == "" || value == "private" || value == "bucket-owner-full-control" {
			return nil
		}
		return noACL("the ACL " + value)
	case has(headerGrant):
		return noACL("the header " + strings.ToLower(name))
	case has(headerEncryption), has(headerCopyKey):
		return refusal("NotImplemented", 501, "objects are not encrypted by keys of their own (%s): encrypt the disk, or the bucket that keeps the data", strings.ToLower(name))
	case has(headerLock):
		return unkept("a lock")
	case strings.EqualFold(name, headerTags) && value != "":
		return unkept("a tag")
	case strings.EqualFold(name, headerRedirect) && value != "":
		return unkept("a redirect")
	}
	return nil
}

func noACL(what string) error {
	return refusal("AccessControlListNotSupported", 400, "The bucket does not allow ACLs: %s is given; Kubernetes says who may read a Dataset", what)
}

// encoded reports whether the names in the answer are to be encoded.
func encoded(ctx context.Context) bool {
	v, ok := ctx.Value(visiting{}).(*visit)
	return ok && v.encoded
}

// encoder returns the function that writes names into the answer of a listing, and the type of
// encoding for the answer.
func encoder(ctx context.Context) (encode func(string) string, kind string) {
	if !encoded(ctx) {
		return func(s string) string { return s }, ""
	}
	return encodeName, "url"
}

// encodeName encodes a name as S3 does, with slashes as they are. A space becomes %20, which
// every client decodes, whether or not it takes a plus for a space.
func encodeName(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "%2F", "/")
}

// encodeText encodes a name that may not be given.
func encodeText(s *string, encode func(string) string) *string {
	if s == nil {
		return nil
	}
	return new(encode(*s))
}
