// Package install is the command `muster install`: puts Muster on a cluster, or
// another version of it.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/strvals"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/service"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/cli/version"
	"github.com/muster-dev/muster/internal/gateway/registry"
	"github.com/muster-dev/muster/internal/installation"
)

type options struct {
	factory *connection.Factory
	format  *output.Format

	files  []string
	set    []string
	reuse  bool
	reset  bool
	force  bool
	dryRun bool
	noWait bool
	// system makes Muster a service of this machine instead, and now starts it.
	system, now bool
	wait        time.Duration
	// version is what is installed: that of this program.
	version string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f, version: version.Client().Version}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put Muster on a Kubernetes cluster, or upgrade it there",
		Long: `Puts Muster on the cluster that --kubeconfig, --context or $KUBECONFIG names: its
kinds, rights, policies and the manager, into the namespace muster-system. What
is applied is the chart charts/muster; --set and --values set what its
values.yaml explains.

Before anything is written it is found out whether you may, whether the server
is new enough, and whether something of somebody else has one of the names.
What runs on the cluster goes on, whichever version comes or goes. Done again
it changes what has to be changed.

The values of an installation are kept on the cluster, in a Secret. --set changes
them, and without flags they are used again. --values FILE is a whole description:
values that it does not name are those of the chart, unless --reuse-values is given.

Needs Kubernetes 1.34 or later. muster uninstall takes it away again.

With --system, no cluster is used: muster up --system becomes a service of this
machine, for all of its users (systemd; as root).`,
		Example: `  muster install --set image.repository=registry.example.com/muster
  muster install --values muster.yaml --dry-run
  muster install --set manager.replicas=3   # the other values stay as they are
  muster install -o yaml > muster.yaml      # what would be applied; changes nothing
  sudo muster install --system --now        # one Muster for all users of this machine`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.system {
				return o.machine(cmd)
			}
			if o.now {
				return exit.Usage("--now starts the service of this machine: give --system, too")
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.system, "system", false, "install the service of this machine, for all of its users, in place of a cluster")
	flags.BoolVar(&o.now, "now", false, "with --system: start the service at once")
	flags.StringArrayVar(&o.files, "values", nil, "file with values, as Helm reads it; several: the last wins")
	flags.StringArrayVar(&o.set, "set", nil, "a value, such as manager.replicas=3; several")
	flags.BoolVar(&o.reuse, "reuse-values", false, "with --values: change the values of the last installation, in place of all of them")
	flags.BoolVar(&o.reset, "reset-values", false, "forget the values of the last installation")
	flags.BoolVar(&o.force, "force", false, "remove the agent although pods cannot end without it: they stay in Terminating until it is back")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and change nothing")
	flags.BoolVar(&o.noWait, "no-wait", false, "return once everything is applied, ready or not")
	flags.DurationVar(&o.wait, "timeout", 5*time.Minute, "longest wait for the manager and the agents")
	o.format = output.Flag(cmd, output.YAML, output.JSON)
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.format.Validate(output.YAML, output.JSON); err != nil {
		return err
	}
	if o.reuse && o.reset {
		return exit.Usage("--reuse-values and --reset-values: give one of them")
	}
	given, err := o.values()
	if err != nil {
		return err
	}
	if *o.format != output.Human {
		return o.show(ctx, given)
	}
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	values, err := o.remember(ctx, cluster, given, o.tell)
	if err != nil {
		return err
	}
	plan, err := cluster.Prepare(ctx, installation.Wish{Version: o.version, Values: values, Force: o.force})
	if err != nil {
		return err
	}
	if len(plan.Refusals) > 0 {
		return &installation.Refusal{Reasons: plan.Refusals}
	}
	if o.dryRun {
		if err := cluster.Compare(ctx, &plan); err != nil {
			return err
		}
		return o.foretell(plan)
	}
	return o.install(ctx, cluster, plan)
}

// machine makes Muster a service of this machine. The flags of a cluster have no place there.
func (o *options) machine(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"system", "now", "dry-run"}, f.Name) && cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil {
			err = exit.Usage("--%s is for a cluster: leave it out with --system", f.Name)
		}
	})
	if err != nil {
		return err
	}
	return service.Install(cmd.Context(), o.factory.Streams, service.Options{Now: o.now, DryRun: o.dryRun})
}

func (o *options) connect() (*installation.Cluster, error) {
	config, err := o.factory.RESTConfig()
	if err != nil {
		return nil, err
	}
	return installation.Connect(config)
}

// values are those of the files and of --set, in that order.
func (o *options) values() (map[string]any, error) {
	values := map[string]any{}
	for _, file := range o.files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading --values: %w", err)
		}
		read := map[string]any{}
		if err := yaml.Unmarshal(data, &read); err != nil {
			return nil, exit.Usage("--values %s: %w", file, err)
		}
		values = installation.Over(values, read)
	}
	for _, text := range o.set {
		if err := strvals.ParseInto(text, values); err != nil {
			return nil, exit.Usage("--set %s: %w; write it as name.name=value", text, err)
		}
	}
	return values, nil
}

// tell writes a line to standard error.
func (o *options) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(o.factory.Streams.Err, format+"\n", args...)
}

// remember returns the values to install. A file replaces all values; --set alone changes those of
// the last installation.
func (o *options) remember(ctx context.Context, cluster *installation.Cluster, given map[string]any, say installation.Say) (map[string]any, error) {
	if o.reset {
		return given, nil
	}
	last, err := cluster.Last(ctx)
	if err != nil {
		return nil, err
	}
	unset := strings.Join(installation.Lost(last.Values, given), ", ")
	whole := len(o.files) > 0 && !o.reuse
	switch {
	case !last.Known && o.reuse:
		return nil, exit.With(exit.Failure, errors.New("--reuse-values: the values of the last installation are not known (there was none, an earlier version made it, or you may not read them): give them by --values"))
	case !last.Known && last.Installed && !whole:
		say("%s the values of the last installation are not known, because an earlier version made it: values that are not given are those of the chart", o.warning())
	case unset != "" && whole:
		say("%s values of the last installation are dropped: %s (--reuse-values keeps them)", o.warning(), unset)
	case unset != "":
		say("with these values of the last installation: %s (--reset-values goes without them)", unset)
	}
	if whole {
		return given, nil
	}
	return installation.Over(last.Values, given), nil
}

func (o *options) warning() string {
	return o.factory.Streams.ErrStyle().Paint(terminal.Yellow, "warning:")
}

// show prints what would be applied to this cluster, or, where there is none,
// to any that is new enough.
func (o *options) show(ctx context.Context, values map[string]any) error {
	r := installation.Rendering{Version: o.version, Values: values}
	if cluster, err := o.connect(); err == nil {
		if server, err := cluster.Server(ctx); err == nil {
			r.Kubernetes, r.Kinds = server.Version, server.Kinds
			if r.Values, err = o.remember(ctx, cluster, values, func(string, ...any) {}); err != nil {
				return err
			}
		}
	}
	objects, err := installation.Render(r)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if *o.format == output.YAML {
			if _, err := fmt.Fprintln(o.factory.Streams.Out, "---"); err != nil {
				return err
			}
		}
		if err := output.Print(o.factory.Streams.Out, *o.format, object.Object); err != nil {
			return err
		}
	}
	return nil
}

// foretell says what would be done.
func (o *options) foretell(plan installation.Plan) error {
	table := terminal.NewTable("ACTION", "OBJECT", "NOTE")
	for _, s := range plan.Steps {
		table.Row(string(s.Action), installation.Title(s.Object), s.Note)
	}
	if err := table.Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.factory.Streams.Out, "%s on Kubernetes %s; nothing was changed (--dry-run)\n", o.headline(plan), plan.Server.Version)
	return err
}

// headline says what an installation is: the first, an upgrade, a repetition.
func (o *options) headline(plan installation.Plan) string {
	switch was := plan.Was(); was {
	case "":
		return "Muster " + o.version
	case o.version:
		return "Muster " + o.version + " again"
	default:
		return "Muster " + o.version + " in place of " + was
	}
}

func (o *options) install(ctx context.Context, cluster *installation.Cluster, plan installation.Plan) error {
	streams := o.factory.Streams
	say := o.tell
	for _, s := range plan.Steps {
		if s.Action == installation.Remove {
			say("%s %s is removed: these values make none", o.warning(), installation.Title(s.Object))
		}
	}
	say("installing %s on Kubernetes %s", o.headline(plan), plan.Server.Version)
	keys, err := o.copyKeys(ctx, say)
	if err != nil {
		return err
	}
	if err := cluster.Apply(ctx, plan, say); err != nil {
		return err
	}
	o.factory.Rediscover()
	changed := slices.ContainsFunc(plan.Steps, func(s installation.Step) bool { return s.Action != installation.Keep })
	if o.noWait && keys > 0 {
		say("%d access keys of S3 clients still have Secrets of an earlier version: once the manager is ready, muster data key adopt removes these", keys)
	}
	if o.noWait || !changed && keys == 0 {
		_, err := fmt.Fprintf(streams.Out, "%s is applied; muster doctor says when it is ready\n", o.headline(plan))
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	progress := terminal.NewProgress(streams.Err, "Starting the manager", terminal.Things)
	err = cluster.Await(waiting, progress.Say)
	progress.Stop()
	if err == nil && keys > 0 {
		err = o.settleKeys(ctx, say)
	}
	if err != nil {
		return err
	}
	if err := o.awaitAgents(waiting, cluster); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "%s is ready\nNext: muster doctor; muster node add NODE; muster user add NAME\n", o.headline(plan))
	return err
}

// awaitAgents waits for the agents. It names those on nodes that are not ready, for which it does not wait.
func (o *options) awaitAgents(ctx context.Context, cluster *installation.Cluster) error {
	progress := terminal.NewProgress(o.factory.Streams.Err, "Starting the agents", terminal.Things)
	agents, err := cluster.AwaitAgents(ctx, progress.Say)
	progress.Stop()
	if err == nil && len(agents.Away) > 0 {
		o.tell("%s %s", o.warning(), agents)
	}
	return err
}

// vault returns the access keys of S3 clients. The rights of the installing user apply.
func (o *options) vault() (*registry.Vault, error) {
	api, err := o.factory.Client()
	if err != nil {
		return nil, err
	}
	return &registry.Vault{Client: api, Namespace: v1alpha1.SystemNamespace}, nil
}

// copyKeys copies the access keys of an earlier version into the Secrets that this version
// reads. The earlier managers go on with the old Secrets meanwhile. It returns the number of
// keys.
func (o *options) copyKeys(ctx context.Context, say installation.Say) (int, error) {
	vault, err := o.vault()
	if err != nil {
		return 0, err
	}
	n, err := vault.Copy(ctx)
	if apierrors.IsForbidden(err) {
		say("access keys of S3 clients that an earlier version has made, if there are any, are not moved: an administrator who may list Secrets of %s runs muster data key adopt", v1alpha1.SystemNamespace)
		return 0, nil
	}
	return n, err
}

// settleKeys removes the Secrets of the keys that were copied.
func (o *options) settleKeys(ctx context.Context, say installation.Say) error {
	vault, err := o.vault()
	if err != nil {
		return err
	}
	n, err := vault.Settle(ctx)
	if err == nil {
		say("moved %d access keys of S3 clients from an earlier version", n)
	}
	return err
}
