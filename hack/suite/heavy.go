package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/hack/suite/event"
	"github.com/muster-dev/muster/hack/suite/input"
	"github.com/muster-dev/muster/hack/suite/pass"
	"github.com/muster-dev/muster/hack/suite/shard"
)

// sharedVariable names a folder that the processes of a suite share, removed with its test
// binaries: what one has built the others need not build.
const sharedVariable = "MUSTER_TEST_SHARED"

// fewCollections sets how often Go programs collect garbage: the tests and all programs that they
// start. With Go's default a Muster spends a fifth of its processor time on collections, and tests
// start many short-lived Musters on few processors.
const fewCollections = "GOGC=400"

// stripped has the linker leave out symbol tables, which takes it less than half of the time. Stacks
// of panics keep their names and lines.
const stripped = "-ldflags=-s -w"

// binary is the compiled tests of a package.
type binary struct {
	// path is the package's import path, folder its folder.
	path, folder string
	file         string
}

// light runs `go test` on the packages.
func (o options) light(ctx context.Context, to io.Writer) error {
	// Vet is one of the linters: `make lint`.
	args := []string{"test", "-json", "-vet=off", stripped, "-tags", o.tags, "-timeout", o.timeout.String()}
	if o.short {
		args = append(args, "-short")
	}
	if o.fresh {
		args = append(args, "-count=1")
	}
	if o.run != "" {
		args = append(args, "-run", o.run)
	}
	if o.skip != "" {
		args = append(args, "-skip", o.skip)
	}
	cmd := command(ctx, "go", append(args, o.packages...)...)
	cmd.Stdout = to
	cmd.Env = append(os.Environ(), fewCollections)
	return outcome(cmd.Run())
}

// compile builds the test binaries of the packages that have tests.
func (o options) compile(ctx context.Context, work string) ([]binary, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-tags", o.tags, "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"}, o.packages...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("test-%s: listing the packages: %w", o.name, err)
	}
	var binaries []binary
	for line := range strings.Lines(string(out)) {
		path, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path == "" {
			continue
		}
		b := binary{path: path, folder: folder, file: filepath.Join(work, fmt.Sprintf("%d.test", len(binaries)))}
		// What a pass is recorded for must not depend on the commit or the clone's folder.
		build := command(ctx, "go", "test", "-c", "-trimpath", "-buildvcs=false", "-vet=off", stripped, "-tags", o.tags, "-o", b.file, path)
		build.Stdout = os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("test-%s: compiling the tests of %s: %w", o.name, path, err)
		}
		binaries = append(binaries, b)
	}
	if len(binaries) == 0 {
		return nil, fmt.Errorf("test-%s: no package has tests: %s", o.name, strings.Join(o.packages, " "))
	}
	return binaries, nil
}

// notUsed are files below hack that do not count as inputs: the tests of heavy suites neither read
// nor start them, and they do not change how a suite runs.
var notUsed = []string{
	"hack/at-one-path", "hack/bench-peers", "hack/beside", "hack/dist", "hack/fuzz", "hack/install-tool", "hack/make-fixture", "hack/mtimes",
	"hack/quickstart", "hack/suite/label.go", "hack/suite/report.go", "hack/suite/times.go", "hack/test-names", "hack/vulnerabilities",
}

// gather computes the inputs of a heavy suite.
func (o options) gather(ctx context.Context, binaries []binary) (pass.Inputs, error) {
	const root = "." // make runs it there
	machine, err := o.machine(ctx, "MUSTER_TEST_CACHE", "MUSTER_TEST_CACHE_CHOSEN", "MUSTER_TEST_LABEL", "MUSTER_TEST_MTIMES", "MUSTER_TEST_REPORT", sharedVariable)
	if err != nil {
		return nil, err
	}
	in := pass.Inputs(machine)
	in["arguments"] = fmt.Sprintf("-command %q -run %q -skip %q -short %v", o.command, o.run, o.skip, o.short)
	for _, b := range binaries {
		if in["tests of "+b.path], err = input.File(b.file); err != nil {
			return nil, err
		}
	}
	if !o.alone {
		if in["bin/muster"], err = input.File(filepath.Join(root, "bin", "muster")); err != nil {
			return nil, fmt.Errorf("%w: run `make tested`", err)
		}
	}
	tracked, err := input.Tracked(ctx, root)
	if err != nil {
		return nil, err
	}
	folders := map[string][]string{
		"folder hack":   input.Except(input.Below(tracked, "hack"), append(input.Below(tracked, notUsed...), input.Ending(tracked, "_test.go")...)),
		"folder charts": input.Below(tracked, "charts"), "folder examples": input.Below(tracked, "examples"),
		// What runs in clusters is built from here, not linked into test binaries.
		"folder test/cluster": input.Below(tracked, "test/cluster", "test/autoscaler/upstream", "go.mod", "go.sum"),
		// What tests read beside their own folders' sources.
		"test data": input.Except(input.Below(tracked, "test", "internal", "api", "config"), input.Ending(tracked, ".go", ".md")),
	}
	for _, path := range o.inputs {
		folders["input "+path] = input.Below(tracked, path)
		if len(folders["input "+path]) == 0 {
			return nil, fmt.Errorf("test-%s: the input %s is no file or folder of the repository", o.name, path)
		}
	}
	if o.sources {
		folders["Go files"] = input.Ending(tracked, ".go")
	}
	for name, paths := range folders {
		if in[name], err = input.Files(root, paths); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// shard runs the tests of all binaries, so many processes at a time.
func (o options) shard(ctx context.Context, binaries []binary, to io.Writer) error {
	out := &lines{to: to}
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(o.shards)
	known := lastTimes(o.cache, o.name)
	failed := make(chan error, 1)
	for _, b := range binaries {
		parts, err := o.parts(ctx, b, known)
		if err != nil {
			return errors.Join(err, running.Wait())
		}
		for i, part := range parts {
			name := b.path
			if len(parts) > 1 {
				name = fmt.Sprintf("%s#%d", b.path, i+1)
			}
			running.Go(func() error {
				err := o.process(ctx, b, name, part, out)
				if errors.Is(err, errFailed) { // the others go on
					select {
					case failed <- err:
					default:
					}
					return nil
				}
				return err
			})
		}
	}
	if err := running.Wait(); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// parts are the -test.run and -test.skip arguments of the processes that run a binary's tests.
func (o options) parts(ctx context.Context, b binary, known map[event.Test]float64) ([][]string, error) {
	if o.shards == 1 {
		return [][]string{{"-test.run", o.run, "-test.skip", o.skip}}, nil
	}
	cmd := exec.CommandContext(ctx, b.file, "-test.list", ".")
	cmd.Dir, cmd.Stderr = b.folder, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("test-%s: listing the tests of %s: %w", o.name, b.path, err)
	}
	run, err := regexp.Compile(o.run)
	if err != nil {
		return nil, fmt.Errorf("test-%s: -run: %w", o.name, err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return nil, fmt.Errorf("test-%s: -skip: %w", o.name, err)
	}
	var tests []string
	times := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		if !strings.HasPrefix(name, "Test") || !run.MatchString(name) || o.skip != "" && skip.MatchString(name) {
			continue
		}
		tests = append(tests, name)
		if seconds, ok := known[event.Test{Package: b.path, Name: name}]; ok {
			times[name] = seconds
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("test-%s: no test of %s matches -run %q -skip %q", o.name, b.path, o.run, o.skip)
	}
	var parts [][]string
	for _, part := range shard.Split(tests, times, o.shards) {
		parts = append(parts, []string{"-test.run", shard.Pattern(part)})
	}
	return parts, nil
}

// process runs some tests of a binary and writes their events, for a package of this name.
func (o options) process(ctx context.Context, b binary, name string, part []string, out *lines) error {
	args := []string{"tool", "test2json", "-t", "-p", name, b.file, "-test.v=test2json", "-test.paniconexit0", "-test.timeout", o.timeout.String()}
	if o.short {
		args = append(args, "-test.short")
	}
	to := out.writer()
	cmd := command(ctx, "go", append(args, part...)...)
	cmd.Dir, cmd.Stdout = b.folder, to
	cmd.Env = append(os.Environ(), fewCollections, sharedVariable+"="+filepath.Join(filepath.Dir(b.file), "shared"))
	return errors.Join(outcome(cmd.Run()), to.Close())
}

// outcome is errFailed for a process that ended with an exit code: its events tell why.
func outcome(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return errFailed
	}
	return err
}

// lastTimes are the seconds of tests in the last run of a suite; none if there was none.
func lastTimes(cache, name string) map[event.Test]float64 {
	times := map[event.Test]float64{}
	data, err := os.ReadFile(filepath.Join(cache, "events", name+".json"))
	if err != nil {
		return times
	}
	summary, err := event.Read(bytes.NewReader(data))
	if err != nil {
		return times
	}
	for _, d := range summary.Durations {
		path, _, _ := strings.Cut(d.Package, "#")
		times[event.Test{Package: path, Name: d.Name}] = d.Seconds
	}
	return times
}
