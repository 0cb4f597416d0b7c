package reading

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/glob"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

// problem is an error that no further try makes go away.
type problem string

// Error implements error.
func (p problem) Error() string { return string(p) }

// errNoMounts is why nothing is mounted where no way to do it was given.
var errNoMounts = errors.New("data is fetched here, and not mounted: leave out lazy")

// final says that trying again is of no use.
func final(err error) bool {
	if _, ok := errors.AsType[problem](err); ok {
		return true
	}
	if full, ok := errors.AsType[*cache.RoomError](err); ok {
		return full.Never()
	}
	return data.Unfit(err)
}

// once brings here what a request wants: 1. what versions mean, 2. a lease on that,
// 3. the files.
func (r *Reader) once(ctx context.Context, q *request) error {
	store, err := r.o.Store(ctx, q.job.Namespace)
	if err != nil {
		return err
	}
	for i := range q.found {
		if q.found[i].Commit == "" {
			if err := r.resolve(ctx, store, q, i); err != nil {
				return err
			}
		}
	}
	if err := r.pin(ctx, store, q); err != nil {
		return err
	}
	if r.o.Cache != nil {
		r.tell(q, Fetching, "fetching "+name(&q.found[0]))
	}
	for i := range q.found {
		if err := r.provide(ctx, store, q, i); err != nil {
			return err
		}
	}
	return nil
}

// name is what is read, for messages.
func name(d *v1alpha1.JobDataStatus) string {
	text := d.Dataset + "@" + d.Version
	if path := strings.Trim(d.Path, "/"); path != "" {
		text += ":/" + path
	}
	return text
}

// resolve finds out what a version means.
func (r *Reader) resolve(ctx context.Context, store *data.Store, q *request, i int) error {
	heads := &dataset.Heads{Client: r.o.Client, Namespace: q.job.Namespace, Name: q.wants[i].dataset}
	commit, err := store.Dataset(heads).Resolve(ctx, q.wants[i].version)
	if _, missing := errors.AsType[*dataset.MissingError](err); missing {
		return problem(fmt.Sprintf("%v: make it and put data into it (muster data create %s, muster data put), then submit the job again", err, heads.Name))
	}
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pack.ErrDamaged) {
		return r.noVersion(ctx, heads, q.wants[i].version)
	}
	if err != nil {
		return fmt.Errorf("finding out what %s is: %w", name(&q.found[i]), err)
	}
	q.found[i].Commit = v1alpha1.DatasetCommit(commit.ID.String())
	return nil
}

// noVersion says what there is instead of a version.
func (r *Reader) noVersion(ctx context.Context, heads *dataset.Heads, version string) error {
	all, err := heads.List(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return problem(fmt.Sprintf("dataset %s has no data yet: put some into it (muster data put PATH %s), then submit the job again", heads.Name, heads.Name))
	}
	var names []string
	for n := range all {
		if n.Kind != ref.Open {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return problem(fmt.Sprintf("dataset %s has no data yet but in commits that are open: muster data close %s, then submit the job again", heads.Name, heads.Name))
	}
	slices.Sort(names)
	if len(names) > 10 {
		names = append(names[:10], "others")
	}
	return problem(fmt.Sprintf("dataset %s has no branch, tag or commit %s; it has %s", heads.Name, version, strings.Join(names, ", ")))
}

// pin keeps the commits from being collected.
func (r *Reader) pin(ctx context.Context, store *data.Store, q *request) error {
	r.mu.Lock()
	pinned := q.lease != nil
	r.mu.Unlock()
	if pinned {
		return nil
	}
	var commits []digest.ID
	for i := range q.found {
		id, err := digest.Parse(string(q.found[i].Commit))
		if err != nil {
			return problem(fmt.Sprintf("reading what %s is: %v", name(&q.found[i]), err))
		}
		commits = append(commits, id)
	}
	lease, err := store.Pin(ctx, commits...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q.lease = lease
	return nil
}

// at is what a commit holds.
func at(ctx context.Context, store *data.Store, commit string) (*data.View, error) {
	if _, err := digest.Parse(commit); err != nil {
		return nil, errors.Join(errNone, err)
	}
	return store.Dataset(&ref.Memory{}).At(ctx, commit)
}

// provide sees to it that one part can be read: it is fetched, or found out that it
// can be mounted.
func (r *Reader) provide(ctx context.Context, store *data.Store, q *request, i int) error {
	d, lazy := &q.found[i], q.wants[i].lazy
	view, err := at(ctx, store, string(d.Commit))
	if errors.Is(err, fs.ErrNotExist) {
		return problem(fmt.Sprintf("commit %s of dataset %s is not there any more", d.Commit, d.Dataset))
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name(d), err)
	}
	if lazy == whenAsked || d.Lazy {
		err = r.measure(ctx, view, d)
	} else {
		err = r.fetch(ctx, view, q, d)
		if full, ok := errors.AsType[*cache.RoomError](err); ok && full.Never() && lazy == beforehandIfItFits {
			err = r.instead(ctx, view, d, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pack.ErrDamaged) {
		return problem(fmt.Sprintf("nothing in %s is or matches %s (commit %s)", d.Dataset+"@"+d.Version, d.Path, view.Commit().ID.Short()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name(d), err)
	}
	return nil
}

// instead has something be mounted that can never fit, or says why it cannot.
func (r *Reader) instead(ctx context.Context, view *data.View, d *v1alpha1.JobDataStatus, full error) error {
	err := r.measure(ctx, view, d)
	if _, ok := errors.AsType[problem](err); ok {
		return problem(fmt.Sprintf("%v; nor can it be read as it is asked for: %v", full, err))
	}
	return err
}

// measure finds out how much there is to read from a mount, and whether there can be
// one.
func (r *Reader) measure(ctx context.Context, view *data.View, d *v1alpha1.JobDataStatus) error {
	if glob.IsPattern(d.Path) {
		return problem(fmt.Sprintf("%s is a pattern, and a mount shows a folder or a file: name one, or fetch what matches (lazy: false)", d.Path))
	}
	if err := r.o.Mountable(); err != nil {
		return problem(err.Error())
	}
	part, err := view.Part(ctx, d.Path)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.Lazy, d.Files, d.Bytes = true, part.Files, part.Bytes
	return nil
}

// fetch brings one part here.
func (r *Reader) fetch(ctx context.Context, view *data.View, q *request, d *v1alpha1.JobDataStatus) error {
	folder, release, err := r.bring(ctx, view, q, d)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if release != nil {
		q.holds = append(q.holds, release)
	}
	d.Key, d.Files, d.Bytes = cache.Key(view, d.Path), folder.Files, folder.Bytes
	return nil
}

// bring has a part in the cache, for the job's namespace; without one it finds out how much it is.
func (r *Reader) bring(ctx context.Context, view *data.View, q *request, d *v1alpha1.JobDataStatus) (cache.Folder, func(), error) {
	if r.o.Cache != nil {
		return r.o.Cache.EnsureFor(ctx, r.o.Scope(q.job.Namespace), view, d.Path, func(p data.Progress) { r.progress(q, d, p) })
	}
	part, err := view.Part(ctx, d.Path)
	if err == nil && r.o.NodeCache > 0 && part.Bytes > r.o.NodeCache {
		return cache.Folder{}, nil, &cache.RoomError{Need: part.Bytes, Limit: r.o.NodeCache}
	}
	return cache.Folder{Files: part.Files, Bytes: part.Bytes}, nil, err
}

// progress tells how far a fetch is, now and then.
func (r *Reader) progress(q *request, d *v1alpha1.JobDataStatus, p data.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Now()
	if now.Sub(q.told) < tellEvery || p.TotalBytes == 0 {
		return
	}
	q.told = now
	q.state.Message = fmt.Sprintf("fetching %s: %s of %s", name(d), cache.Size(p.Bytes), cache.Size(p.TotalBytes))
	r.board.Post(q.job.String())
}

// Folder is where a volume of a pod of a namespace finds what it names: the part of a
// commit at a path, of which key is [cache.Key], if it is known. What is not here any
// more, as after the machine was started anew, is fetched from the namespace's store.
// There has to be a cache.
func (r *Reader) Folder(ctx context.Context, namespace, key, commit, path string) (string, error) {
	scope := r.o.Scope(namespace)
	if folder, ok := r.o.Cache.Path(cache.Scoped(scope, key)); ok {
		return folder.Path, nil
	}
	store, err := r.o.Store(ctx, namespace)
	if err != nil {
		return "", err
	}
	view, err := at(ctx, store, commit)
	if err != nil {
		return "", fmt.Errorf("reading commit %s: %w", commit, err)
	}
	folder, release, err := r.o.Cache.EnsureFor(ctx, scope, view, path, nil)
	if err != nil {
		return "", err
	}
	release() // the pod names it
	return folder.Path, nil
}
