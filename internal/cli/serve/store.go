package serve

import (
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/shelf"
)

// store says where code is kept: in a folder, in a bucket or nowhere.
type store struct {
	folder    string
	bucket    bucket.Options
	quota     string
	retention time.Duration
}

func (s *store) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.folder, "store-folder", "", "folder in which code of jobs is kept, such as that of a claim; one for all replicas (default: jobs with code are refused)")
	flags.StringVar(&s.bucket.Endpoint, "store-s3-endpoint", "", "address of an S3 service in which code of jobs is kept: https://s3.example.com; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks")
	flags.StringVar(&s.bucket.Bucket, "store-s3-bucket", "", "its bucket, which has to be there")
	flags.StringVar(&s.bucket.Region, "store-s3-region", "", "its region (default: the service is asked)")
	flags.StringVar(&s.quota, "store-quota", "20Gi", "how much code and how many environments a namespace may keep, together")
	flags.DurationVar(&s.retention, "store-retention", depot.DefaultRetention, "for how long code, and an environment, is kept that no job names and nobody has used")
}

func (s *store) check() error {
	s3 := s.bucket.Endpoint != "" || s.bucket.Bucket != ""
	quota, err := resource.ParseQuantity(s.quota)
	switch {
	case s3 && s.folder != "":
		return exit.Usage("--store-folder and --store-s3-endpoint: code is kept in one place: give one of them")
	case s3 && (s.bucket.Endpoint == "" || s.bucket.Bucket == ""):
		return exit.Usage("--store-s3-endpoint and --store-s3-bucket go together: give both")
	case err != nil || quota.Value() <= 0:
		return exit.Usage("--store-quota %s: give a size, such as 20Gi", s.quota)
	case s.retention < time.Hour:
		return exit.Usage("--store-retention %s: give an hour or more", s.retention)
	}
	return nil
}

// somewhere says whether there is a place for code.
func (s *store) somewhere() bool { return s.folder != "" || s.bucket.Endpoint != "" }

// open opens the store; nil where there is none.
func (s *store) open() (*depot.Depot, error) {
	quota, err := resource.ParseQuantity(s.quota)
	if err != nil {
		return nil, err
	}
	options := depot.Options{Quota: quota.Value(), Retention: s.retention}
	switch {
	case s.folder != "":
		options.Shelf, err = shelf.OpenFolder(s.folder)
	case s.bucket.Endpoint != "":
		options.Shelf, err = shelf.OpenBucket(s.bucket)
	default:
		return nil, nil //nolint:nilnil // no store is no error
	}
	if err != nil {
		return nil, err
	}
	return depot.New(options), nil
}
