package serve

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/dataset"
)

// The variables that hold the keys of a bucket for data that is another than that
// for code.
const (
	dataAccessKey = "MUSTER_DATA_ACCESS_KEY_ID"
	dataSecretKey = "MUSTER_DATA_SECRET_ACCESS_KEY"
)

// storeWorkers is how many cores the store of each namespace may use in the manager.
const storeWorkers = 2

// holdings say where versioned data is kept: in a folder, in a bucket, or below a
// prefix of its own where code is.
type holdings struct {
	on     bool
	folder string
	bucket bucket.Options
	prefix string
	quota  string
	// nodeCache is how much agents keep on each node; empty: it is not known.
	nodeCache string
	// ahead has agents fetch what those read that start before long.
	ahead bool
}

func (h *holdings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&h.on, "data", true, "keep versioned data (muster data), where there is a place for it")
	flags.StringVar(&h.folder, "data-folder", "", "folder in which data is kept, such as that of a claim; one for all replicas (default: where code is kept)")
	flags.StringVar(&h.bucket.Endpoint, "data-s3-endpoint", "", "address of an S3 service in which data is kept: https://s3.example.com; "+
		dataAccessKey+" and "+dataSecretKey+" say who asks, else the keys for code (default: where code is kept)")
	flags.StringVar(&h.bucket.Bucket, "data-s3-bucket", "", "its bucket, which has to be there")
	flags.StringVar(&h.bucket.Region, "data-s3-region", "", "its region (default: the service is asked)")
	flags.StringVar(&h.prefix, "data-prefix", "data", "what all keys of data begin with in the folder or bucket; the namespace follows")
	flags.BoolVar(&h.ahead, "data-ahead", true, "have agents fetch the data of jobs that wait to the nodes that these are likely to get, where there are agents and data")
	flags.StringVar(&h.nodeCache, "data-node-cache", "", "how much data agents keep on a node (their --data-cache), such as 500Gi: of what is more jobs read as they ask for it (default: it is not known)")
	flags.StringVar(&h.quota, "data-quota", "1Ti", "how much data a namespace may keep; 0: no bound")
}

func (h *holdings) check(s *store) error {
	s3 := h.bucket.Endpoint != "" || h.bucket.Bucket != ""
	quota, err := resource.ParseQuantity(h.quota)
	switch {
	case s3 && h.folder != "":
		return exit.Usage("--data-folder and --data-s3-endpoint: data is kept in one place: give one of them")
	case s3 && (h.bucket.Endpoint == "" || h.bucket.Bucket == ""):
		return exit.Usage("--data-s3-endpoint and --data-s3-bucket go together: give both")
	case err != nil || quota.Sign() < 0:
		return exit.Usage("--data-quota %s: give a size, such as 1Ti, or 0", h.quota)
	case h.nodeCache != "" && h.perNode() <= 0:
		return exit.Usage("--data-node-cache %s: give a size, such as 500Gi", h.nodeCache)
	case h.prefix != "" && (!filepath.IsLocal(h.prefix) || strings.Contains(h.prefix, `\`)):
		return exit.Usage("--data-prefix %s: give a relative path such as data", h.prefix)
	case h.shares() && s.somewhere() && beside(h.prefix):
		return exit.Usage("--data-prefix %q: code is kept in the same place: give data a prefix of its own, other than code and environments", h.prefix)
	}
	return nil
}

// perNode is how many bytes agents keep on a node; 0: it is not known.
func (h *holdings) perNode() int64 {
	size, err := resource.ParseQuantity(h.nodeCache)
	if err != nil {
		return 0
	}
	return size.Value()
}

// shares says whether data is kept where code is.
func (h *holdings) shares() bool { return h.folder == "" && h.bucket.Endpoint == "" }

// beside says whether a prefix is one of those that code is kept below, or above.
func beside(prefix string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(prefix)), "/")
	return prefix == "" || first == "." || first == "code" || first == "environments"
}

// place says in words where data is kept; empty: nowhere.
func (h *holdings) place(s *store) string {
	at, folder := h.bucket, h.folder
	if h.shares() {
		at, folder = s.bucket, s.folder
	}
	switch {
	case !h.on:
		return ""
	case folder != "":
		return "folder " + filepath.Join(folder, h.prefix)
	case at.Endpoint != "":
		return "bucket " + at.Bucket + " at " + at.Endpoint + ", below " + strings.TrimSuffix(h.prefix, "/") + "/"
	}
	return ""
}

// open opens the stores; nil where there is no place for them.
func (h *holdings) open(s *store) (*warehouse.Warehouse, error) {
	quota, err := resource.ParseQuantity(h.quota)
	if err != nil {
		return nil, err
	}
	at, place := h.bucket, h.folder
	if key := os.Getenv(dataAccessKey); key != "" {
		at.AccessKey, at.SecretKey = key, os.Getenv(dataSecretKey)
	}
	if h.shares() {
		at, place = s.bucket, s.folder
	}
	o := warehouse.Options{Quota: quota.Value(), Workers: storeWorkers, Bucket: at, Prefix: h.prefix}
	switch {
	case !h.on || place == "" && at.Endpoint == "":
		return nil, nil //nolint:nilnil // no place is no error
	case place != "":
		o.Folder = filepath.Join(place, h.prefix)
	}
	return warehouse.Open(o)
}

// addCaretaker has the replica that leads collect what nothing reaches.
func addCaretaker(m upstream.Manager, stores *warehouse.Warehouse, log *slog.Logger) error {
	if stores == nil {
		return nil
	}
	api, err := client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := m.Add(&dataset.Caretaker{Stores: stores, Client: api, Log: log}); err != nil {
		return fmt.Errorf("adding what collects data: %w", err)
	}
	return nil
}
