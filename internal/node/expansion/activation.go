package expansion

import (
	"os"
	"path/filepath"
)

// Activate makes a container use the Python environment in a folder, as the
// environment's own activate script would: its bin comes first in PATH. A
// folder with conda-meta is a conda environment, any other a virtual one.
func Activate(v *Variables, folder string) {
	search, _ := v.Get("PATH")
	bin := filepath.Join(folder, "bin")
	if search != "" {
		bin += string(os.PathListSeparator) + search
	}
	v.Set("PATH", bin)
	v.Unset("PYTHONHOME")
	if info, err := os.Stat(filepath.Join(folder, "conda-meta")); err == nil && info.IsDir() {
		v.Set("CONDA_PREFIX", folder)
		v.Default("CONDA_DEFAULT_ENV", filepath.Base(folder))
		return
	}
	v.Set("VIRTUAL_ENV", folder)
}
