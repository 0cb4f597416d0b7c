package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/muster-dev/muster/hack/suite/input"
)

// options are the command line, and where the outcome is written.
type options struct {
	out io.Writer
	// machine returns what the machine adds to the inputs of a heavy suite.
	machine func(ctx context.Context, ignored ...string) (map[string]string, error)

	name     string
	packages []string

	tags, run, skip string
	timeout         time.Duration
	short, fresh    bool

	heavy, alone bool
	command      string
	shards       int
	inputs       list
	sources      bool

	cache, gotestsum, report string
	label                    bool

	// Instead of running a suite: print times, or the report in this file.
	times   bool
	summary string
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, strings.Fields(s)...); return nil }

// suiteName keeps a name from being a path.
var suiteName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func parse(args []string, usage io.Writer) (options, error) {
	o := options{out: os.Stdout, machine: input.Machine}
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.tags, "tags", "", "build tags, parted by commas")
	flags.StringVar(&o.run, "run", "", "run only tests that match this pattern")
	flags.StringVar(&o.skip, "skip", "", "leave out tests that match this pattern")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "end a package's tests after this time")
	flags.BoolVar(&o.short, "short", false, "tell tests to be short")
	flags.BoolVar(&o.fresh, "fresh", os.Getenv("CI_FULL") == "1", "run tests that passed before with the same inputs; default with CI_FULL=1")
	flags.BoolVar(&o.heavy, "heavy", false, "remember a pass by all inputs, not by Go's cache")
	flags.BoolVar(&o.alone, "alone", false, "the tests of a heavy suite do not start bin/muster")
	flags.StringVar(&o.command, "command", "", "run this command of the repository instead of packages; such a suite is heavy")
	flags.IntVar(&o.shards, "shards", 1, "run the tests of a heavy suite in this many processes at a time")
	flags.Var(&o.inputs, "input", "a file or folder of the repository that the tests of a heavy suite read, beside hack, charts and examples; may be repeated")
	flags.BoolVar(&o.sources, "sources", false, "any change of a Go file is a change of a heavy suite")
	flags.StringVar(&o.cache, "cache", os.Getenv("MUSTER_TEST_CACHE"), "the folder for what is kept between runs; default $MUSTER_TEST_CACHE")
	flags.StringVar(&o.gotestsum, "gotestsum", "", "the gotestsum program that shows events; default: test2json's events as they are")
	flags.StringVar(&o.report, "report", os.Getenv("MUSTER_TEST_REPORT"), "a file to which a line on the suite is added; default $MUSTER_TEST_REPORT")
	flags.BoolVar(&o.label, "label", os.Getenv("MUSTER_TEST_LABEL") == "1", "begin each line of output with the suite's name; default with MUSTER_TEST_LABEL=1")
	flags.StringVar(&o.summary, "summary", "", "print the report in this file as a table, and run nothing")
	flags.BoolVar(&o.times, "times", false, "print the costliest tests of the last run of each suite, and run nothing")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.summary != "" {
		return o, nil
	}
	if o.cache == "" {
		return o, errors.New("suite: no folder for what is kept between runs: set -cache or MUSTER_TEST_CACHE to what hack/cache prints")
	}
	if o.times {
		return o, nil
	}
	if flags.NArg() < 2 && (o.command == "" || flags.NArg() < 1) {
		return o, errors.New("suite: a name and at least one package are expected, such as: suite -tags e2e e2e ./test/e2e")
	}
	if o.command != "" {
		o.heavy = true
		if flags.NArg() > 1 {
			return o, fmt.Errorf("suite: packages and -command %s are given: give one of both", o.command)
		}
	}
	o.name, o.packages = flags.Arg(0), flags.Args()[1:]
	if !suiteName.MatchString(o.name) {
		return o, fmt.Errorf("suite: the name %q is not allowed: use lower-case letters, digits and -, such as images-e2e", o.name)
	}
	if o.label {
		o.out = &labelled{to: o.out, label: o.name + ": "}
	}
	if o.shards < 1 {
		return o, fmt.Errorf("suite: -shards %d is not allowed: at least 1 process runs the tests", o.shards)
	}
	return o, nil
}
