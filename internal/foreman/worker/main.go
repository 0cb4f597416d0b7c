package worker

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// memberVerb is the first word of a member of a job: see [RunMember].
const memberVerb = "member"

// Main is the program muster-worker: a worker with a post, or a member of a job that
// computes one datum. It returns the exit code.
func Main(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == memberVerb {
		return memberMain(context.WithoutCancel(ctx), args[1:])
	}
	flags := flag.NewFlagSet("muster-worker", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	post := flags.String("post", "", "folder with the socket and the token of the work")
	work := flags.String("work", "", "name of the work")
	scratch := flags.String("scratch", "", "folder for the files of datums")
	gpus := flags.Float64("gpus", 0, "GPUs that this worker holds")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *post == "" || *work == "" || flags.NArg() > 0 {
		_, _ = fmt.Fprintln(os.Stderr, "muster-worker is run by the jobs of pipelines: use `muster pipeline`")
		return 2
	}
	o := Options{Post: *post, Work: *work, Scratch: *scratch, GPUs: *gpus, Environ: os.Environ(), Out: os.Stderr, Temporary: Temporary(*post), Dedicated: true}
	o.Name, o.Member = Place()
	if err := Run(ctx, o); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "muster: %v\n", err)
		return 1
	}
	return 0
}

// memberMain runs one program of a training stage.
func memberMain(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("muster-worker member", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	o := MemberOptions{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	flags.StringVar(&o.Post, "post", "", "folder with the socket and the token of the work")
	flags.StringVar(&o.Work, "work", "", "name of the work")
	flags.StringVar(&o.Folder, "datum", "", "folder for the files of the datum")
	flags.StringVar(&o.Mount, "mount", "", "folder in which they appear by their names")
	leads := flags.Bool("leads", false, "its end is that of the others, and it brings what it wrote last")
	follows := flags.Bool("follows", false, "it goes on until the leader is done")
	flags.BoolVar(&o.Leaves, "leaves", false, "one that follows may go in order before the leader is done")
	flags.DurationVar(&o.Grace, "grace", 0, "how long the program may take to end")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.Words = flags.Args(); o.Post == "" || o.Work == "" || o.Folder == "" || len(o.Words) == 0 {
		_, _ = fmt.Fprintln(os.Stderr, "muster-worker is run by the jobs of pipelines: use `muster pipeline`")
		return 2
	}
	switch {
	case *leads:
		o.Duty = Leads
	case *follows:
		o.Duty = Follows
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	defer signal.Stop(signals)
	o.Signals = signals
	_, o.Name = Place()
	return RunMember(ctx, o)
}

// Place is what this process is called, and the place that it has in its job, by
// the variables that members of jobs have.
func Place() (name, member string) {
	member = os.Getenv("ROLE") + "/" + os.Getenv("INDEX")
	return member + "-" + rand.Text()[:8], member
}
