package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// TestWrite packs the chart twice and has Helm read it.
func TestWrite(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	var packed [2][]byte
	for i := range packed {
		path, err := Write("../../../../charts/muster", t.TempDir(), "0.1.0-dev.3.gabc", "v0.1.0-dev.3.gabc", at)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(path); name != "muster-0.1.0-dev.3.gabc.tgz" {
			t.Errorf("it is called %s", name)
		}
		if packed[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		c, err := loader.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.Metadata.Version != "0.1.0-dev.3.gabc" || c.Metadata.AppVersion != "v0.1.0-dev.3.gabc" {
			t.Errorf("it is of version %s, for %s", c.Metadata.Version, c.Metadata.AppVersion)
		}
		crds := 0
		for _, file := range c.Files {
			if filepath.Dir(file.Name) == "crd" {
				crds++
			}
		}
		if len(c.Templates) < 10 || crds < 7 {
			t.Errorf("it has %d templates and %d kinds", len(c.Templates), crds)
		}
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("the same chart made two files")
	}
}
