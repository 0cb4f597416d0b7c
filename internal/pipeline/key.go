package pipeline

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Key names the result of a datum: of a recipe and files.
func Key(recipe, files digest.ID) digest.ID {
	h := newHash("key")
	h.id(recipe)
	h.id(files)
	return h.sum()
}

// runKey is that of a datum that is computed anew in one run.
func runKey(key digest.ID, run string) digest.ID {
	h := newHash("run")
	h.id(key)
	h.text(run)
	return h.sum()
}

// The folders of a stage's state.
const (
	allFolder    = "all/"
	failedFolder = "failed/"
)

// past is what a state has of a datum.
type past struct {
	files digest.ID
	// key is that of the result that was taken, if it is not the recipe's own.
	key digest.ID
}

// of is the key of the result.
func (p past) of(recipe digest.ID) digest.ID {
	if p.key.IsZero() {
		return Key(recipe, p.files)
	}
	return p.key
}

// entry is a datum as a state's tree has it: a link whose target are the names of
// its files and, if need be, of its result. It takes no blob.
func (p past) entry(folder, name string) *tree.Entry {
	target := base64.RawURLEncoding.EncodeToString(p.files[:])
	if !p.key.IsZero() {
		target += "." + base64.RawURLEncoding.EncodeToString(p.key[:])
	}
	return &tree.Entry{Path: folder + name, Kind: tree.Link, Size: int64(len(target)), Target: target}
}

// parsePast reads what entry wrote.
func parsePast(e *tree.Entry) (past, error) {
	var p past
	files, key, has := strings.Cut(e.Target, ".")
	err := parseShort(&p.files, files)
	if err == nil && has {
		err = parseShort(&p.key, key)
	}
	if err != nil {
		return past{}, fmt.Errorf("the state of datum %q: %w", e.Path, err)
	}
	return p, nil
}

func parseShort(id *digest.ID, text string) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if len(raw) != len(id) {
		return fmt.Errorf("%q is no name of content", text)
	}
	copy(id[:], raw)
	return nil
}
