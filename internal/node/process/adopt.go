package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// answerFor is how long a live shim may take to say what it runs. One that is
// slower is adopted all the same.
const answerFor = 2 * time.Second

// Adopt returns every container under the root, live ones and ended ones, in
// the order of their IDs. Call it once, before any Start. Control groups of
// containers whose folders were deleted are removed. The error joins what
// is wrong with single folders and is not fatal.
func (r *Runtime) Adopt(ctx context.Context) ([]*Process, error) {
	folders, err := filepath.Glob(filepath.Join(escapeGlob(r.root), "*", containersFolder, "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("looking for containers: %w", err)
	}
	sweepGroups(r.hierarchies, defaultParent, time.Now())
	var all []*Process
	var errs []error
	for _, dir := range folders {
		if err := ctx.Err(); err != nil {
			return all, errors.Join(append(errs, err)...)
		}
		p, err := r.adopt(ctx, dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("adopting the container in %s: %w", dir, err))
		}
		if p != nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Process) int { return strings.Compare(a.spec.ID, b.spec.ID) })
	return all, errors.Join(errs...)
}

// escapeGlob makes Glob take a path as it is.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// adopt finds out what became of the container in one folder.
func (r *Runtime) adopt(ctx context.Context, dir string) (*Process, error) {
	var spec Spec
	if err := readJSON(filepath.Join(dir, contract.SpecFile), &spec); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, r.discard(dir)
		}
		return nil, err
	}
	if err := validate(spec); err != nil {
		return nil, err
	}
	if r.folder(spec) != dir {
		return nil, fmt.Errorf("its spec is that of container %s", spec.ID)
	}
	p := newProcess(r, spec, dir)
	err := readJSON(filepath.Join(dir, contract.IdentityFile), &p.identity)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// 1. An exit on record is the last word.
	if exit, err := readExit(dir); err == nil {
		p.finish(exit)
		return p, nil
	}
	// 2. A shim that answers is alive, whatever its number is.
	link, err := p.dial(ctx)
	switch {
	case err == nil:
		return p, p.reconnect(link)
	case !errors.Is(err, ErrEnded):
		return nil, err
	}
	// 3. It may have ended between the two.
	p.settle()
	return p, nil
}

// discard removes a folder that was being made when muster ended.
func (r *Runtime) discard(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, contract.IdentityFile)); err == nil {
		return fmt.Errorf("its %s is missing", contract.SpecFile)
	}
	return os.RemoveAll(dir)
}

// reconnect follows a live shim.
func (p *Process) reconnect(link *link) error {
	if err := link.send(contract.Request{Op: contract.OpWait}); err != nil {
		link.close()
		p.settle()
		return nil //nolint:nilerr // The shim ended just now, which settle tells.
	}
	_ = link.conn.SetReadDeadline(time.Now().Add(answerFor))
	var reply contract.Reply
	err := link.receive(&reply)
	_ = link.conn.SetReadDeadline(time.Time{})
	switch {
	case err == nil:
		p.heard(reply)
	case errors.Is(err, os.ErrDeadlineExceeded):
	default:
		link.close()
		p.settle()
		return nil
	}
	if err := p.runtime.watch(p, link, nil); err != nil {
		link.close()
		return err
	}
	return nil
}
