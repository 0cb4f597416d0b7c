package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Revision is the version of a checkout.
type Revision struct {
	// Semantic is the version as SemVer, without a "v". It is a valid image tag, too.
	Semantic string
	// Python is the same as PEP 440.
	Python string
	// Commit is the hash of the commit.
	Commit string
	// Time is that of the commit: every file in a release has it.
	Time time.Time
}

// Program is the version as `muster version` prints it.
func (r Revision) Program() string { return "v" + r.Semantic }

// history is what Git tells about a checkout.
type history struct {
	// tag is the last release before the commit, empty before the first.
	tag string
	// since counts the commits after that tag, or all where there is none.
	since int
	// commit is its hash.
	commit string
	// changed reports whether files differ from the commit, or are not in it: a release would have
	// them.
	changed bool
}

// Of returns the version of the checkout in a folder.
func Of(ctx context.Context, root string) (Revision, error) {
	next, err := nextRelease(filepath.Join(root, "python", "pyproject.toml"))
	if err != nil {
		return Revision{}, err
	}
	h, at, err := look(ctx, root)
	if err != nil {
		return Revision{}, err
	}
	r, err := nameOf(h, next)
	r.Time = at
	return r, err
}

// nameOf makes the version out of the history and the next release.
func nameOf(h history, next string) (Revision, error) {
	r := Revision{Commit: h.commit}
	tag := strings.TrimPrefix(h.tag, "v")
	if tag != "" && h.since == 0 && !h.changed {
		if tag != next {
			return r, fmt.Errorf("the tag %s and the version %s in python/pyproject.toml differ: tag the commit that sets the version", h.tag, next)
		}
		r.Semantic, r.Python = tag, tag
		return r, nil
	}
	if tag == next {
		var err error
		if next, err = patchAfter(tag); err != nil {
			return r, err
		}
	}
	short := "g" + h.commit[:min(12, len(h.commit))]
	r.Semantic = fmt.Sprintf("%s-dev.%d.%s", next, h.since, short)
	r.Python = fmt.Sprintf("%s.dev%d+%s", next, h.since, short)
	if h.changed {
		r.Semantic += ".changed"
		r.Python += ".changed"
	}
	return r, nil
}

var release = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)$`)

// patchAfter is the version after one that was released already.
func patchAfter(version string) (string, error) {
	parts := release.FindStringSubmatch(version)
	if parts == nil {
		return "", fmt.Errorf("the version %q is not MAJOR.MINOR.PATCH", version)
	}
	patch, err := strconv.Atoi(parts[3])
	if err != nil {
		return "", fmt.Errorf("reading the version %q: %w", version, err)
	}
	return fmt.Sprintf("%s.%s.%d", parts[1], parts[2], patch+1), nil
}

var versionLine = regexp.MustCompile(`(?m)^version = "([^"]+)"$`)

// nextRelease reads the version out of a pyproject.toml.
func nextRelease(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the next release: %w", err)
	}
	found := versionLine.FindSubmatch(text)
	if found == nil || !release.Match(found[1]) {
		return "", fmt.Errorf("reading the next release: %s needs a line such as version = \"0.1.0\"", path)
	}
	return string(found[1]), nil
}

// look asks Git.
func look(ctx context.Context, root string) (history, time.Time, error) {
	var h history
	head, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return h, time.Time{}, err
	}
	hash, seconds, _ := strings.Cut(head, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return h, time.Time{}, fmt.Errorf("reading the time of commit %s: %w", hash, err)
	}
	h.commit = hash
	changes, err := git(ctx, root, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return h, time.Time{}, err
	}
	h.changed = changes != ""
	since := "HEAD"
	// No tag is no error: there is none before the first release.
	if tag, err := git(ctx, root, "describe", "--tags", "--match", "v[0-9]*", "--abbrev=0"); err == nil {
		h.tag, since = tag, tag+"..HEAD"
	}
	count, err := git(ctx, root, "rev-list", "--count", since)
	if err != nil {
		return h, time.Time{}, err
	}
	h.since, err = strconv.Atoi(count)
	return h, time.Unix(unix, 0).UTC(), err
}

// git returns what a git command prints, without the last newline.
func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking git %s: %w", args[0], errors.Join(err, errors.New(strings.TrimSpace(errs.String()))))
	}
	return strings.TrimSpace(string(out)), nil
}
