package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/presence"
	"github.com/muster-dev/muster/internal/installation"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/tenant"
)

// shortest is the shortest life that servers give a token.
const shortest = 10 * time.Minute

type adding struct {
	factory  *connection.Factory
	tenant   tenant.Tenant
	file     string
	lifetime time.Duration
	server   string
}

func newAdd(f *connection.Factory) *cobra.Command {
	o := &adding{factory: f}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Give somebody a namespace, a queue and a kubeconfig",
		Long: `Makes the namespace NAME and, if there is none of that name, the queue; gives the
user the right to submit, see and stop jobs in that namespace and to use that
queue; closes the namespace's network but for members of jobs and the cluster's
DNS; and writes a kubeconfig that only you can read.

The kubeconfig holds a token that ends after --lifetime (a server may give a
shorter one), and at once with muster user remove. Adding somebody again renews
it. With --identity the user is somebody whom the cluster knows already, and no
kubeconfig is written.

Only a cluster has users. A Muster of one machine (muster up) refuses: its jobs run
as the user who started it, also jobs that other people submit.`,
		Example: `  muster user add ada
  muster user add bob --queue vision --lifetime 168h --file bob.kubeconfig
  muster user add eve --identity eve@example.com`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.tenant.Queue, "queue", "", "queue that they may use (default: one of their name)")
	flags.StringVar(&o.tenant.Identity, "identity", "", "name by which the cluster knows them already")
	flags.StringVar(&o.file, "file", "", "where the kubeconfig is written (default: NAME.kubeconfig here)")
	flags.StringVar(&o.server, "server", "", "address of the API server for the kubeconfig (default: yours)")
	flags.DurationVar(&o.lifetime, "lifetime", 720*time.Hour, "for how long the kubeconfig is good, at least 10m")
	return cmd
}

func (o *adding) complete(args []string) error {
	name, err := one("add", args)
	if err != nil {
		return err
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return exit.Usage("%q is no name for a user: give up to 63 lower-case letters, digits and '-'", name)
	}
	o.tenant.Name = name
	if o.tenant.Queue == "" {
		o.tenant.Queue = name
	}
	if len(validation.IsDNS1123Label(o.tenant.Queue)) > 0 {
		return exit.Usage("--queue %q is no name for a queue: give up to 63 lower-case letters, digits and '-'", o.tenant.Queue)
	}
	if o.lifetime < shortest {
		return exit.Usage("--lifetime %s is too short: give at least %s", o.lifetime, shortest)
	}
	if o.tenant.Identity != "" && o.file != "" {
		return exit.Usage("--identity and --file: who is known to the cluster already gets no kubeconfig; leave one of them out")
	}
	if o.file == "" {
		o.file = name + ".kubeconfig"
	}
	return nil
}

func (o *adding) run(ctx context.Context) error {
	server, err := o.factory.Client()
	if err != nil {
		return err
	}
	// It creates nothing if no manager would act on it.
	err = server.List(ctx, &v1alpha1.QueueList{}, client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return presence.ErrAbsent
	}
	if err != nil {
		return fmt.Errorf("looking for Muster: %w", err)
	}
	alone, err := installation.OnOneMachine(ctx, server)
	if err != nil {
		return err
	}
	if alone {
		return exit.With(exit.Failure, errors.New(onOneMachine))
	}
	made, err := tenant.Add(ctx, server, o.tenant)
	switch {
	case errors.Is(err, tenant.ErrTaken):
		return exit.With(exit.Failure, fmt.Errorf("there is a namespace %s already, and it is not a user's of Muster: choose another name, or label it %s=%[1]s if it is to be theirs", o.tenant.Name, tenant.LabelUser))
	case err != nil:
		return err
	}
	queue := "may use queue " + o.tenant.Queue
	if made {
		queue += ", which is new"
	}
	out := o.factory.Streams.Out
	if o.tenant.Identity != "" {
		_, err := fmt.Fprintf(out, "%s (%s) has namespace %[1]s and %[3]s\n", o.tenant.Name, o.tenant.Identity, queue)
		return err
	}
	ends, err := o.write(ctx, server)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has namespace %[1]s and %[2]s\nkubeconfig: %[3]s, good until %[4]s; `muster user add %[1]s` renews it\n",
		o.tenant.Name, queue, o.file, ends.Local().Format("2006-01-02 15:04"))
	return err
}

// write writes the kubeconfig, for its owner alone, wholly or not at all.
func (o *adding) write(ctx context.Context, server client.Client) (time.Time, error) {
	config, err := o.factory.RESTConfig()
	if err != nil {
		return time.Time{}, err
	}
	data, ends, err := tenant.Kubeconfig(ctx, server, config, o.tenant, o.server, o.lifetime)
	if err != nil {
		return ends, err
	}
	if err := osfile.Replace(o.file, data, 0o600); err != nil {
		return ends, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return ends, nil
}
