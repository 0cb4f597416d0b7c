package gateway

import (
	"strings"

	"github.com/muster-dev/muster/internal/data/tree"
)

// longestKey is S3's limit, in bytes.
const longestKey = 1024

// target is what a key names.
type target struct {
	version, path string
	// folder says that the key ends in a slash.
	folder bool
}

// parse reads a key, which it copies: the server uses the memory again.
func parse(key *string) (target, error) {
	k := strings.Clone(*key)
	if len(k) > longestKey {
		return target{}, refusal("KeyTooLongError", 400, "the key has %d bytes: at most %d are possible", len(k), longestKey)
	}
	version, path, deeper := strings.Cut(k, "/")
	if !deeper || version == "" {
		return target{}, refusal("InvalidArgument", 400, "key %q names no version: the first part of a key is a branch, a tag or a commit, such as main/%s", k, strings.TrimPrefix(k, "/"))
	}
	trimmed := strings.TrimSuffix(path, "/")
	t := target{version: version, path: trimmed, folder: trimmed != path || path == ""}
	if trimmed == "" {
		return t, nil
	}
	if err := tree.CheckPath(trimmed); err != nil {
		return target{}, refusal("InvalidArgument", 400, "%s", err)
	}
	return t, nil
}
