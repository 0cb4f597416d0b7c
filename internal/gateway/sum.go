package gateway

import (
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3response"
)

// sum is a checksum that a client says a body has.
type sum struct {
	value *string
	kind  utils.HashType
}

func sums(in *s3response.PutObjectInput) []sum {
	return []sum{
		{in.ChecksumCRC32, utils.HashTypeCRC32}, {in.ChecksumCRC32C, utils.HashTypeCRC32C}, {in.ChecksumCRC64NVME, utils.HashTypeCRC64NVME},
		{in.ChecksumSHA1, utils.HashTypeSha1}, {in.ChecksumSHA256, utils.HashTypeSha256}, {in.ChecksumSHA512, utils.HashTypeSha512},
		{in.ChecksumMD5, utils.HashTypeMd5}, {in.ChecksumXXHASH64, utils.HashTypeXXHASH64}, {in.ChecksumXXHASH3, utils.HashTypeXXHASH3},
		{in.ChecksumXXHASH128, utils.HashTypeXXHASH128},
	}
}

func partSums(in *s3.UploadPartInput) []sum {
	return []sum{
		{in.ChecksumCRC32, utils.HashTypeCRC32}, {in.ChecksumCRC32C, utils.HashTypeCRC32C}, {in.ChecksumCRC64NVME, utils.HashTypeCRC64NVME},
		{in.ChecksumSHA1, utils.HashTypeSha1}, {in.ChecksumSHA256, utils.HashTypeSha256}, {in.ChecksumSHA512, utils.HashTypeSha512},
		{in.ChecksumMD5, utils.HashTypeMd5}, {in.ChecksumXXHASH64, utils.HashTypeXXHASH64}, {in.ChecksumXXHASH3, utils.HashTypeXXHASH3},
		{in.ChecksumXXHASH128, utils.HashTypeXXHASH128},
	}
}

// verified is a body whose end is an error where its bytes do not have the sums that
// the headers of its request say. Signatures, MD5s and sums behind the body have been
// seen to by versitygw.
func verified(body io.Reader, said []sum) (io.Reader, error) {
	body = empty(body)
	for _, s := range said {
		if text(s.value) == "" {
			continue
		}
		r, err := utils.NewHashReader(body, *s.value, s.kind)
		if err != nil {
			return nil, fmt.Errorf("checking a sum: %w", err)
		}
		body = r
	}
	return body, nil
}
