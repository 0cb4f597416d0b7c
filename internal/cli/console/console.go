package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/control"
)

type options struct {
	factory *connection.Factory
	format  *output.Format
	print   bool
	ssh     string
	program string
	port    int
	// open shows a link in a browser.
	open func(ctx context.Context, link string) error
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the pages of Muster in a browser",
		Long: `Prints a link to the pages of the running Muster, and opens it if this machine has a
display. The link signs you in once, within a minute, and only as you. Where all users
of the machine share a Muster, the pages show what you may see.

With --ssh the Muster runs on another machine, where the command muster is
installed. The command makes a tunnel with your ssh program, opens the link here,
and keeps the tunnel until ^C.

With a kubeconfig of a cluster the pages are served on this machine, with the
credential of the kubeconfig, until ^C.`,
		Example: `  muster console
  muster console --ssh ada@gpu-box
  muster console --kubeconfig cluster.kubeconfig`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("console takes no arguments; for the Muster of another machine give --ssh %s", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, output.JSON, output.YAML)
	flags := cmd.Flags()
	flags.BoolVar(&o.print, "print", false, "print the link and open no browser")
	flags.StringVar(&o.ssh, "ssh", "", "user@host of the machine where Muster runs")
	flags.StringVar(&o.program, "remote-command", "muster", "with --ssh: how muster is called there, such as \"muster --home /data/muster\"")
	flags.IntVar(&o.port, "port", 0, "local port: of the tunnel, or of the pages for a cluster (default: 6490 if it is free, else any)")
	o.open = o.browse
	return cmd
}

func (o *options) validate() error {
	if err := o.format.Validate(output.JSON, output.YAML); err != nil {
		return err
	}
	if o.port < 0 || o.port > 65535 {
		return exit.Usage("--port %d: allowed are 1 to 65535", o.port)
	}
	if o.ssh == "" {
		return nil
	}
	if *o.format != output.Human {
		return exit.Usage("--ssh and -o %s do not go together: the command keeps the tunnel until ^C", *o.format)
	}
	return checkHost(o.ssh)
}

func (o *options) run(ctx context.Context) error {
	if o.ssh != "" {
		return o.tunnel(ctx)
	}
	kind, err := o.factory.Kind()
	if err != nil {
		return err
	}
	if kind == connection.Cluster {
		return o.serve(ctx)
	}
	client, err := website.Client(o.factory)
	if err != nil {
		return err
	}
	link, err := client.Link(ctx, o.port)
	if err != nil {
		return website.Explain(o.factory, err)
	}
	return o.show(ctx, link)
}

// show prints a link and opens it.
func (o *options) show(ctx context.Context, link control.Link) error {
	out := o.factory.Streams.Out
	if *o.format != output.Human {
		return output.Print(out, *o.format, link)
	}
	if o.print {
		_, err := fmt.Fprintln(out, link.URL)
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\nThe link works once, until %s.\n", link.URL, link.Expires.Local().Format("15:04:05")); err != nil {
		return err
	}
	return o.tryOpen(ctx, link.URL)
}

var errNoDisplay = errors.New("this machine has no display")

// tryOpen opens a link. Without a browser the user opens the printed link.
func (o *options) tryOpen(ctx context.Context, link string) error {
	err := o.open(ctx, link)
	if err == nil || errors.Is(err, errNoDisplay) {
		return nil
	}
	_, err = fmt.Fprintf(o.factory.Streams.Err, "muster: no browser was opened (%v): open the link\n", err)
	return err
}

// browse opens a link in the browser. Command lines are readable by other users of the machine, so the
// browser gets the name of a file that leads to the link.
func (o *options) browse(ctx context.Context, link string) error {
	command := browser(o.factory.Getenv)
	if command == nil {
		return errNoDisplay
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	file, err := writeLeader(filepath.Join(cache, "muster"), link)
	if err != nil {
		return err
	}
	return start(ctx, append(command, file))
}
