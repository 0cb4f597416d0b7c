package run

import (
	"path"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// dataShape is what --data takes, for messages.
const dataShape = "give DATASET[@VERSION][:PATH][=MOUNT], such as digits, digits@v1:/train or digits@main:/train=/data"

// parseData reads "digits@v1:/train=/data". A path may hold a =, a mount may not. Lazy
// has all of it be mounted.
func parseData(texts []string, lazy bool) ([]v1alpha1.JobData, error) {
	if lazy && len(texts) == 0 {
		return nil, exit.Usage("--lazy is about what --data names: %s", dataShape)
	}
	var all []v1alpha1.JobData
	mounts := map[string]bool{}
	for _, text := range texts {
		what, mount, given := text, "", false
		if cut := strings.LastIndexByte(text, '='); cut >= 0 {
			what, mount, given = text[:cut], text[cut+1:], true
		}
		a, err := address.Parse(what)
		if err != nil {
			return nil, exit.Usage("--data %s: %w", text, err)
		}
		if given && mount == "" {
			return nil, exit.Usage("--data %s: the mount is missing after =; %s", text, dataShape)
		}
		if !given {
			mount = v1alpha1.PodRoot + "/data/" + a.Dataset
		}
		mount = path.Clean(mount)
		if mounts[mount] {
			return nil, exit.Usage("--data %s: %s is mounted twice; add =MOUNT to say where each is to be", text, mount)
		}
		mounts[mount] = true
		d := v1alpha1.JobData{Dataset: a.Dataset, Mount: mount}
		if lazy && address.IsPattern(a.Path) {
			return nil, exit.Usage("--data %s: with --lazy give a folder or a file: a mount shows no pattern", text)
		}
		if lazy {
			d.Lazy = &lazy
		}
		if a.Version != "" || a.Back > 0 {
			d.Version = a.Revision()
		}
		if a.Path != "" {
			d.Path = "/" + a.Path
		}
		all = append(all, d)
	}
	return all, nil
}
