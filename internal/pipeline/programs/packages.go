package programs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// Installed returns the packages of an environment with their versions, as they are named in it, in
// order.
func Installed(path string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(path, "lib", "python3*", "site-packages", "*.dist-info"))
	if err != nil {
		return nil, fmt.Errorf("reading what is installed in %s: %w", path, err)
	}
	var out []string
	for _, name := range found {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			out = append(out, strings.TrimSuffix(filepath.Base(name), ".dist-info")+origin(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// mostOrigin is the most bytes of a file that names the origin of a package.
const mostOrigin = 1 << 20

// origin is, of a package that comes from a place of its own, what was fetched from
// there, or else the place: its version does not say that. The builds of a cluster have
// the same in build.py.
func origin(info string) string {
	folder, err := os.OpenRoot(info + "/.")
	if err != nil {
		return ""
	}
	defer func() { _ = folder.Close() }()
	text, err := osfile.ReadRegular(folder, "direct_url.json", mostOrigin)
	if err != nil {
		return "" // it comes from an index
	}
	var said struct {
		URL     string `json:"url"`
		Archive struct {
			Hash   string            `json:"hash"`
			Hashes map[string]string `json:"hashes"`
		} `json:"archive_info"`
		Repository struct {
			Commit string `json:"commit_id"`
		} `json:"vcs_info"`
	}
	if json.Unmarshal(text, &said) != nil {
		return ""
	}
	hash := said.Archive.Hash
	if hash == "" && len(said.Archive.Hashes) > 0 {
		first := slices.Sorted(maps.Keys(said.Archive.Hashes))[0]
		hash = first + "=" + said.Archive.Hashes[first]
	}
	// What a place is called may have a secret in it.
	place := sha256.Sum256([]byte(said.URL))
	return " @ " + cmp.Or(said.Repository.Commit, hash, "url="+hex.EncodeToString(place[:]))
}
