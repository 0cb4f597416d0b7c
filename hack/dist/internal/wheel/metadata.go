package wheel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// project is the part of a pyproject.toml that the metadata is made of.
type project struct {
	Project struct {
		Name           string
		Readme         string
		License        struct{ Text string }
		RequiresPython string `toml:"requires-python"`
		Dependencies   []string
		Optional       map[string][]string          `toml:"optional-dependencies"`
		EntryPoints    map[string]map[string]string `toml:"entry-points"`
	}
}

// readProject reads the pyproject.toml of a folder, and the description that it
// names.
func readProject(folder string) (p project, description string, err error) {
	if _, err := toml.DecodeFile(filepath.Join(folder, "pyproject.toml"), &p); err != nil {
		return p, "", fmt.Errorf("reading the Python project: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, p.Project.Readme))
	if err != nil {
		return p, "", fmt.Errorf("reading the description of the Python project: %w", err)
	}
	return p, string(text), nil
}

// metadata is the file METADATA: what pip and an index tell about the wheel.
func (p project) metadata(version, summary, description string, licences []string) string {
	lines := []string{
		"Metadata-Version: 2.4", // the first with License-File and License-Expression
		"Name: " + p.Project.Name,
		"Version: " + version,
		"Summary: " + summary,
		"License-Expression: " + p.Project.License.Text,
		"Classifier: Operating System :: POSIX :: Linux",
		"Classifier: Programming Language :: Go",
		"Classifier: Programming Language :: Python :: 3",
		"Requires-Python: " + p.Project.RequiresPython,
	}
	for _, file := range licences {
		lines = append(lines, "License-File: "+file)
	}
	for _, requirement := range p.Project.Dependencies {
		lines = append(lines, "Requires-Dist: "+requirement)
	}
	for _, extra := range sortedKeys(p.Project.Optional) {
		lines = append(lines, "Provides-Extra: "+extra)
		for _, requirement := range p.Project.Optional[extra] {
			lines = append(lines, fmt.Sprintf("Requires-Dist: %s ; extra == %q", requirement, extra))
		}
	}
	lines = append(lines, "Description-Content-Type: text/markdown", "", description)
	return strings.Join(lines, "\n")
}

// entryPoints is the file entry_points.txt, by which fsspec finds muster://.
func (p project) entryPoints() string {
	var text strings.Builder
	for _, group := range sortedKeys(p.Project.EntryPoints) {
		fmt.Fprintf(&text, "[%s]\n", group)
		for _, name := range sortedKeys(p.Project.EntryPoints[group]) {
			fmt.Fprintf(&text, "%s = %s\n", name, p.Project.EntryPoints[group][name])
		}
	}
	return text.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
