package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

func TestWhereDataIsKept(t *testing.T) {
	folder := t.TempDir()
	for name, c := range map[string]struct {
		data  holdings
		code  store
		place string
		wrong string
	}{
		"nowhere":                 {data: holdings{on: true, prefix: "data"}},
		"where code is":           {data: holdings{on: true, prefix: "data"}, code: store{folder: folder}, place: "folder " + folder + "/data"},
		"in the bucket of code":   {data: holdings{on: true, prefix: "data"}, code: store{bucket: bucket.Options{Endpoint: "https://s3.test", Bucket: "b"}}, place: "bucket b at https://s3.test, below data/"},
		"in a folder of its own":  {data: holdings{on: true, folder: folder, prefix: "x/y"}, code: store{folder: "/elsewhere"}, place: "folder " + folder + "/x/y"},
		"in a bucket of its own":  {data: holdings{on: true, bucket: bucket.Options{Endpoint: "https://s3.test", Bucket: "d"}}, code: store{folder: "/elsewhere"}, place: "bucket d at https://s3.test, below /"},
		"not wanted":              {data: holdings{prefix: "data"}, code: store{folder: folder}},
		"two places":              {data: holdings{on: true, folder: folder, bucket: bucket.Options{Endpoint: "https://s3.test", Bucket: "d"}}, wrong: "in one place"},
		"half a bucket":           {data: holdings{on: true, bucket: bucket.Options{Bucket: "d"}}, wrong: "give both"},
		"a prefix that leads out": {data: holdings{on: true, prefix: "../x"}, wrong: "--data-prefix"},
		"amid code":               {data: holdings{on: true, prefix: "code/x"}, code: store{folder: folder}, wrong: "a prefix of its own"},
		"around code":             {data: holdings{on: true}, code: store{folder: folder}, wrong: "a prefix of its own"},
		"no cache":                {data: holdings{on: true, prefix: "data", quota: "1Ti", nodeCache: "much"}, wrong: "--data-node-cache"},
		"no quota":                {data: holdings{on: true, prefix: "data", quota: "-1"}, wrong: "--data-quota"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.data.quota == "" {
				c.data.quota = "1Ti"
			}
			err := c.data.check(&c.code)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			opened, err := c.data.open(&c.code)
			if err != nil || (opened != nil) != (c.place != "") {
				t.Errorf("opened: %v, %v", opened != nil, err)
			}
			if got := c.data.place(&c.code); got != c.place {
				t.Errorf("%q, want %q", got, c.place)
			}
		})
	}
}

// TestTheStoreIsBelowItsPrefix, where code has its own.
func TestTheStoreIsBelowItsPrefix(t *testing.T) {
	folder := t.TempDir()
	h := holdings{on: true, prefix: "data", quota: "0"}
	stores, err := h.open(&store{folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	const key = "packs/00/00000000000000000000000000000000"
	put(t, stores, key)
	if _, err := os.Stat(filepath.Join(folder, "data", "ada", key)); err != nil {
		t.Error(err)
	}
}

func put(t *testing.T, stores *warehouse.Warehouse, key string) {
	t.Helper()
	objects, err := stores.Objects("ada")
	if err == nil {
		err = objects.Put(t.Context(), key, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
