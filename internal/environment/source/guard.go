package source

import (
	"fmt"
	"sort"
	"strings"
)

// guard refuses what is too large to be code, and says where the weight is.
func (w *walk) guard() error {
	advice := "name what is not code in .musterignore, or put data on a volume (--volume) and read it from there"
	if files := len(w.found.files); files > w.limits.MaxFiles {
		many := fmt.Sprint(files)
		if files >= countAtMost {
			many = "more than " + many
		}
		return fmt.Errorf("it holds %s files, and the limit for code is %d; most are in %s; %s",
			many, w.limits.MaxFiles, w.largest(func(entry) int64 { return 1 }, func(n int64) string { return fmt.Sprintf("%d files", n) }), advice)
	}
	if w.found.bytes > w.limits.MaxBytes {
		return fmt.Errorf("it holds %s, and the limit for code is %s; the largest parts are %s; %s",
			FormatBytes(w.found.bytes), FormatBytes(w.limits.MaxBytes), w.largest(func(e entry) int64 { return e.Size }, FormatBytes), advice)
	}
	return nil
}

// largest names the three heaviest parts of the folder. A folder that is heavy
// because of one thing inside gives way to that thing.
func (w *walk) largest(weigh func(entry) int64, format func(int64) string) string {
	weights := map[string]int64{}
	children := map[string][]string{}
	for _, e := range w.found.tree.Entries {
		if e.Type != typeFile {
			continue
		}
		weight := weigh(e)
		for path := e.Path; ; {
			parent := ""
			if i := strings.LastIndexByte(path, '/'); i >= 0 {
				parent = path[:i]
			}
			if _, known := weights[path]; !known {
				children[parent] = append(children[parent], path)
			}
			weights[path] += weight
			if parent == "" {
				break
			}
			path = parent
		}
	}
	heaviest := func(paths []string) {
		sort.Slice(paths, func(i, j int) bool {
			if weights[paths[i]] != weights[paths[j]] {
				return weights[paths[i]] > weights[paths[j]]
			}
			return paths[i] < paths[j]
		})
	}
	top := children[""]
	heaviest(top)
	var parts []string
	for _, path := range top[:min(3, len(top))] {
		for len(children[path]) > 0 {
			heaviest(children[path])
			next := children[path][0]
			if len(children[next]) == 0 || weights[next]*5 < weights[path]*3 {
				break
			}
			path = next
		}
		name := path
		if len(children[path]) > 0 {
			name += "/"
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", name, format(weights[path])))
	}
	return strings.Join(parts, ", ")
}

// FormatBytes writes a size the way people read it: "512 MiB", "1.5 GiB".
func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	text := fmt.Sprintf("%.1f", value)
	return strings.TrimSuffix(text, ".0") + " " + units[unit]
}
