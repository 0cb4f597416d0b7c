package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
)

type options struct {
	factory *connection.Factory
	// command is how muster is called for the same data folder.
	command invocation

	config   string
	port     int
	tier     string
	simulate string
	socket   string
	guard    string
	detach   bool
	system   bool
	owner    string
	timeout  time.Duration
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "up",
		GroupID: "machine",
		Short:   "Start Muster on this machine",
		Long: `Starts Muster: a Kubernetes API server with its storage and controllers, and a
node that runs pods as processes of this machine. Everything is kept in one data
folder, ~/.muster unless --home or $MUSTER_HOME says otherwise; it may be killed
at any time and started again.

Only the loopback address is listened on. kubectl works with the kubeconfig in
the data folder.

Where the disk of the data folder is almost full, only removal works until there
is room: up, status and doctor print that, and so does each refused request.

Settings are read from config.yaml in the data folder; flags win. The next start
uses --port, --tier, --simulate-gpus, --containerd, --guard and --config of this
one, so that muster up after muster down or a reboot gives the same machine. A flag that
is given then wins, and so does config.yaml; up prints the kept flags.

With --system, as root, it is one Muster for all users of the machine, in
/var/lib/muster: jobs run as their users, who have equal shares of the GPUs and
see no code, data and logs of others. The commands of all users find it by
themselves. muster install --system makes it start with the machine.`,
		Example: "  muster up\n  sudo muster up --system --detach\n  muster up --detach\n  muster up --simulate-gpus 8xA100",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration file (default: as last time, else config.yaml in the data folder)")
	flags.IntVar(&o.port, "port", 0, "port of the API server on 127.0.0.1 (default: as last time, else 6443, else any free one)")
	flags.StringVar(&o.tier, "tier", "", "how pods are kept apart: auto, plain or isolated (default: as last time, else auto)")
	flags.StringVar(&o.simulate, "simulate-gpus", "", "declare pretend GPUs, such as 8xA100 or 4xA100,2xH100; none for those of the machine (default: as last time, else none)")
	flags.StringVar(&o.socket, "containerd", "", "socket of the containerd that pulls images, or none (default: as last time, else "+configuration.DefaultContainerd+")")
	flags.StringVar(&o.guard, "guard", "", "programs in login sessions cannot open the GPUs until muster down: gpus, compute (they cannot use CUDA; nvidia-smi works) or none (default: as last time, else none)")
	flags.Lookup("guard").NoOptDefVal = configuration.GuardGPUs
	flags.BoolVar(&o.system, "system", false, "one Muster for all users of the machine; as root")
	flags.StringVar(&o.owner, "owner", "", "with --system, for a data folder of one user: the login or uid of the user to whom its code and data go")
	flags.BoolVarP(&o.detach, "detach", "d", false, "start in the background and return once it is ready")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait until it is ready")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	dir, err := o.folder()
	if err != nil {
		return err
	}
	shared, err := o.sharing(cmd.Context())
	if err != nil {
		return err
	}
	home := instance.Home(dir)
	chosen, err := o.settle(cmd.Flags(), home)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the data folder (choose another with --home): %w", err)
	}
	o.command = invocation{program: "muster", system: o.system}
	if cmd.Flags().Changed("home") {
		o.command.program += " --home " + dir
	}
	if o.detach {
		return o.background(cmd.Context(), home, chosen.notes)
	}
	m := &machine{home: home, start: chosen, command: o.command, config: chosen.config, version: o.factory.Version, say: o.say, startTimeout: o.timeout, shared: o.system, several: shared}
	return m.run(cmd.Context())
}

// folder is the data folder.
func (o *options) folder() (string, error) {
	if o.system {
		return o.factory.SystemHome()
	}
	return o.factory.Home()
}

// say tells the user something, a sentence a line.
func (o *options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.factory.Streams.Err, "muster: "+format+"\n", args...)
}

// welcome is what a person may do next.
func (o *options) welcome(home instance.Home, s instance.State) {
	o.say("ready in %.1f s: %s tier, log in %s", s.ReadySeconds, s.Tier, shorten(home.Log()))
	if s.LowRoom != "" {
		o.say("%s", s.LowRoom)
	}
	o.say("try: %s -- python train.py    look: %s, %s    stop: %s", o.command.verb("run"), o.command.verb("status"), o.command.verb("top"), o.command.stop())
	if o.system {
		o.say("each user of this machine can type these; kubectl: %s get trainingjobs", o.command.verb("kubectl"))
		return
	}
	o.say("kubectl: export KUBECONFIG=%s", shorten(home.Kubeconfig()))
}

// shorten writes the user's home folder as ~.
func shorten(path string) string {
	if user, err := os.UserHomeDir(); err == nil && user != "/" {
		if rest, ok := strings.CutPrefix(path, user+string(filepath.Separator)); ok {
			return "~/" + rest
		}
	}
	return path
}

var errNotReady = errors.New("it was not ready in time")

// waitReady waits until the instance is ready, or reports why it will not be.
func (o *options) waitReady(ctx context.Context, home instance.Home, pid int, ended <-chan struct{}) (instance.State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errNotReady)
	defer cancel()
	s, err := home.Wait(ctx, func(s instance.State, _ bool) bool {
		select {
		case <-ended:
			return true
		default:
			return s.PID == pid && (s.Phase == instance.Ready || s.Phase == instance.Failed)
		}
	})
	switch {
	case err != nil:
		return s, fmt.Errorf("waiting for Muster to be ready (its log is %s): %w", home.Log(), context.Cause(ctx))
	case s.PID == pid && s.Phase == instance.Ready:
		return s, nil
	case s.PID == pid && s.Error != "":
		return s, errors.New(s.Error)
	default:
		return s, fmt.Errorf("muster ended before it was ready: see %s", home.Log())
	}
}
