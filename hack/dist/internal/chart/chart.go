package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
)

// Write packs the chart in a folder into another folder and returns the file. The
// version is SemVer; the program's, with its "v", becomes the image's tag.
func Write(from, to, version, program string, at time.Time) (string, error) {
	c, err := loader.Load(from)
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = version, program
	if err := c.Validate(); err != nil {
		return "", fmt.Errorf("checking the chart: %w", err)
	}
	c.ModTime, c.SchemaModTime = at, at
	for _, files := range [][]*common.File{c.Raw, c.Templates, c.Files} {
		for _, file := range files {
			file.ModTime = at
		}
	}
	// Helm names the file itself, after what is in the chart.
	work, err := os.MkdirTemp(to, "chart-")
	if err != nil {
		return "", fmt.Errorf("packing the chart: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	packed, err := util.Save(c, work)
	if err != nil {
		return "", fmt.Errorf("packing the chart: %w", err)
	}
	path := filepath.Join(to, filepath.Base(packed))
	if err := os.Rename(packed, path); err != nil {
		return "", fmt.Errorf("packing the chart: %w", err)
	}
	return path, nil
}
