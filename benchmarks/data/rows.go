package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	mb = 1e6
	mi = 1 << 20
)

// pair runs two things in turns, each after what prepares for it.
func (b *bench) pair(ctx context.Context, prepare func() error, ours, theirs func() (measured, error)) (measured, measured, error) {
	var a, z []measured
	for range b.runs {
		for _, side := range []struct {
			run func() (measured, error)
			all *[]measured
		}{{theirs, &z}, {ours, &a}} {
			if side.run == nil {
				continue
			}
			if err := errors.Join(prepare(), ctx.Err()); err != nil {
				return measured{}, measured{}, err
			}
			m, err := side.run()
			if err != nil {
				return measured{}, measured{}, err
			}
			*side.all = append(*side.all, m)
		}
	}
	if theirs == nil {
		return median(a), measured{}, nil
	}
	return median(a), median(z), nil
}

// after measures once everything is as it is wanted.
func after(prepare func() error, run func() (measured, error)) func() (measured, error) {
	return func() (measured, error) {
		if err := prepare(); err != nil {
			return measured{}, err
		}
		return run()
	}
}

// quiet has the disk done with what was before, and the cache as it is wanted.
func (b *bench) quiet(read string, remove ...string) func() error {
	return func() error {
		for _, path := range remove {
			if err := os.RemoveAll(b.path(path)); err != nil {
				return err
			}
		}
		if err := syncAll(b.dir); err != nil {
			return err
		}
		if b.cold {
			return forget(b.path(read))
		}
		return warm(b.path(read))
	}
}

// file: one long file.
func (b *bench) file(ctx context.Context) error {
	size := int64(8e9 * b.scale)
	if err := randomFile(b.path("file"), size); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.path("file")) }()
	ours, cp, err := b.pair(ctx, b.quiet("file", "store", "copy"),
		func() (measured, error) { return step(ctx, "put", b.path("store"), b.path("file")) },
		func() (measured, error) { return other(ctx, b.path("copy"), "cp", b.path("file"), b.path("copy")) })
	if err != nil {
		return err
	}
	speed := func(m measured) string {
		return fmt.Sprintf("%.0f MB/s (%.1f s)", float64(size)/mb/m.Seconds, m.Seconds)
	}
	b.say(fmt.Sprintf("ingest a file of %.1f GB of random bytes", float64(size)/1e9), fmt.Sprintf("%s, %d MB of memory", speed(ours), ours.Memory/mi),
		"cp + sync "+speed(cp), ">= 0.6 of it, <= 512 MB", cp.Seconds/ours.Seconds >= 0.6 && ours.Memory <= 512*mi)
	if _, err := step(ctx, "put", b.path("store"), b.path("file")); err != nil {
		return err
	}
	if err := flip(b.path("file"), size/2); err != nil {
		return err
	}
	m, err := step(ctx, "put", b.path("store"), b.path("file"))
	if err != nil {
		return err
	}
	b.say("one changed byte in it", fmt.Sprintf("%.2f MB stored, %.1f s", float64(m.Stored)/mb, m.Seconds), "-", "<= 4 MB", m.Stored > 0 && m.Stored <= 4*mi)
	return os.RemoveAll(b.path("store"))
}

// small: many small files.
func (b *bench) small(ctx context.Context) error {
	n := int(200_000 * b.scale)
	if err := manyFiles(b.path("many"), n, 4096); err != nil {
		return err
	}
	put := func(args ...string) func() (measured, error) {
		return func() (measured, error) {
			return step(ctx, "put", append([]string{b.path("store"), b.path("many")}, args...)...)
		}
	}
	ours, cp, err := b.pair(ctx, b.quiet("many", "store", "copy"), put(),
		func() (measured, error) {
			return other(ctx, b.path("copy"), "cp", "-r", b.path("many"), b.path("copy"))
		})
	if err != nil {
		return err
	}
	rate := func(m measured) string { return fmt.Sprintf("%.0f files/s (%.1f s)", float64(n)/m.Seconds, m.Seconds) }
	b.say(fmt.Sprintf("ingest %d files of 4 KB", n), fmt.Sprintf("%s, %d MB of memory", rate(ours), ours.Memory/mi), "cp -r + sync "+rate(cp), ">= 20,000 files/s", float64(n)/ours.Seconds >= 20_000)
	b.others = b.peers(b.path("many"))
	quiet := b.quiet("many", "store")
	anew := func(p peer) error { return errors.Join(p.anew(ctx, b.dir), quiet()) }
	if err := b.against(ctx, "ingest them", anew, put(), func(p peer) []string { return p.put }, rate); err != nil {
		return err
	}
	if _, err := put()(); err != nil {
		return err
	}
	quiet = b.quiet("many")
	calm := func(peer) error { return quiet() }
	if err := b.against(ctx, "unchanged again", calm, put(), func(p peer) []string { return p.put }, rate); err != nil {
		return err
	}
	again, _, err := b.pair(ctx, b.quiet("many"), put(), nil)
	if err != nil {
		return err
	}
	b.say("unchanged again", rate(again), "-", "faster", again.Seconds < ours.Seconds && again.Stored == 0)
	if err := editInPlace(b.path("many", "d000", "f000000")); err != nil {
		return err
	}
	edited, err := put("checksum")()
	if err != nil {
		return err
	}
	b.say("one file edited, its size and time kept, looked at by content", rate(edited), "-", "found", edited.Stored > 0)
	if err := b.against(ctx, "every file read again", calm, put("checksum"), func(p peer) []string { return p.look }, rate); err != nil {
		return err
	}
	for _, p := range b.others {
		for _, path := range p.made {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	out, cp, err := b.pair(ctx, b.quiet("store", "out", "copy"),
		func() (measured, error) { return step(ctx, "checkout", b.path("store"), b.path("out")) },
		func() (measured, error) { return other(ctx, "", "cp", "-r", b.path("many"), b.path("copy")) })
	if err != nil {
		return err
	}
	b.say("check them out", rate(out), "cp -r "+rate(cp), ">= 0.5 of it", cp.Seconds/out.Seconds >= 0.5 && out.Files == int64(n))
	var errs []error
	for _, path := range []string{"many", "copy", "out", "store"} {
		errs = append(errs, os.RemoveAll(b.path(path)))
	}
	return errors.Join(errs...)
}

// diff: two commits of very many files that differ in one.
func (b *bench) diff(ctx context.Context) error {
	n := int(1_000_000 * b.scale)
	made, err := step(ctx, "make", b.path("store"), strconv.Itoa(n))
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "two commits of %d files made in %.1f s, %d MB of memory\n", n, made.Seconds, made.Memory/mi)
	m, _, err := b.pair(ctx, b.quiet("store"), func() (measured, error) { return step(ctx, "diff", b.path("store")) }, nil)
	if err != nil {
		return err
	}
	b.say(fmt.Sprintf("diff of two commits of %d files, 1 changed", n), fmt.Sprintf("%.1f ms, %d object reads", m.Seconds*1000, m.Reads), "-", "<= 10 ms, <= 50 reads",
		m.Seconds <= 0.01 && m.Reads <= 50 && m.Files == 1)
	return os.RemoveAll(b.path("store"))
}

// commits: many of one file each, and what a collection makes of them. They are checked
// out in turns from the store and from what it was before, and nothing is removed
// meanwhile: a disk from which much was removed is slow for minutes.
func (b *bench) commits(ctx context.Context) error {
	n := int(10_000 * b.scale)
	stores, outs := []string{"store", "before"}, []string{}
	defer func() {
		for _, path := range append(stores, outs...) {
			_ = os.RemoveAll(b.path(path))
		}
	}()
	if _, err := step(ctx, "commits", b.path("store"), strconv.Itoa(n)); err != nil {
		return err
	}
	if err := os.CopyFS(b.path("before"), os.DirFS(b.path("store"))); err != nil {
		return err
	}
	seconds := 0.0
	for range 2 { // what is joined stays where it was until the next one
		time.Sleep(3 * time.Second) // what was stored just now is left alone
		collected, err := step(ctx, "collect", b.path("store"))
		if err != nil {
			return err
		}
		seconds += collected.Seconds
	}
	objects := map[string]int{}
	for _, store := range stores {
		for _, prefix := range []string{"packs", "bales"} {
			more, err := count(b.path(store, "bytes", prefix))
			if err != nil {
				return err
			}
			objects[store] += more
		}
	}
	from := func(store string) func() (measured, error) {
		return after(b.quiet(store), func() (measured, error) {
			outs = append(outs, fmt.Sprint("out", len(outs)))
			return step(ctx, "checkout", b.path(store), b.path(outs[len(outs)-1]))
		})
	}
	fast, slow, err := b.pair(ctx, func() error { return nil }, from("store"), from("before"))
	if err != nil {
		return err
	}
	b.say(fmt.Sprintf("%d commits of a file of 64 KB each: objects after two collections of %.1f s", n, seconds), fmt.Sprintf("%d", objects["store"]), fmt.Sprintf("before it %d", objects["before"]), "of 8 MB and more each", objects["store"] <= 2+n*s3Object/(8*mi))
	b.say("check them out then", fmt.Sprintf("%.0f/s (%.2f s)", float64(n)/fast.Seconds, fast.Seconds), fmt.Sprintf("before it %.0f/s (%.2f s)", float64(n)/slow.Seconds, slow.Seconds), "not slower", fast.Seconds <= 1.1*slow.Seconds)
	return nil
}

// count is how many files there are below a folder, which need not be there.
func count(folder string) (n int, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	return n, err
}
