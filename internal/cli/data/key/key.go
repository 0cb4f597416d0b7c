// Package key is the command `muster data key`: access keys for S3 clients.
//
// It must not know how requests are signed.
package key

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

var formats = []output.Format{output.JSON, output.YAML}

// Item is one key, as -o json prints it.
type Item struct {
	AccessKeyID string `json:"accessKeyID"`
	// SecretAccessKey is printed once: when the key is made.
	SecretAccessKey string    `json:"secretAccessKey,omitempty"`
	Namespace       string    `json:"namespace"`
	User            string    `json:"user"`
	Since           time.Time `json:"since"`
	// Until is when it is good no more, if that ever is.
	Until *time.Time `json:"until,omitempty"`
	// Endpoint is where S3 clients find the gateway, if it serves.
	Endpoint string `json:"endpoint,omitempty"`
	// PodEndpoint is the gateway's address for pods of the isolated tier.
	PodEndpoint string `json:"podEndpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	// CABundle is what clients of a cluster's gateway have to trust, PEM, and
	// CABundleFile the file of this machine that has it.
	CABundle     string `json:"caBundle,omitempty"`
	CABundleFile string `json:"caBundleFile,omitempty"`
}

type options struct {
	factory *connection.Factory
	format  *output.Format
	life    time.Duration
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make and remove access keys for S3 clients",
		Long: `S3 clients (aws, rclone, boto3, pandas, ...) read and write datasets as
s3://DATASET/VERSION/PATH, on one machine at the address that muster status shows,
on a cluster at that of its gateway, if it has one. An access key opens the datasets
of one namespace, with the rights of the user who made it.`,
		Example: "  muster data key create\n  muster data key list\n  muster data key delete MU...",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return exit.Usage("muster data key %s: there is no such command; there are create, list, delete and adopt", args[0])
		},
	}
	cmd.AddCommand(newCreate(f), newList(f), newDelete(f), newAdopt(f))
	return cmd
}

func newCreate(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an access key for yourself",
		Long: `Makes an access key for you and the datasets of the namespace (-n). Its secret is
shown this once. The key is good until it is deleted; on a cluster for as long as
--for says, and no longer than an administrator has set (90 days). There it is for
who the API server says that you are now, with the groups that you are in now, and
what S3 clients have to trust is written to a file that AWS_CA_BUNDLE names.`,
		Example:           "  muster data key create\n  muster data key create -n vision -o json\n  muster data key create --for 8h",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usage("a key gets its name by itself: what is %q?", args[0])
		}
		if cmd.Flags().Changed("for") && o.life < time.Second {
			return exit.Usage("--for %s: give a second or more, such as 8h", o.life)
		}
		return o.run(cmd.Context(), act{o.create, o.createThere})
	}
	cmd.Flags().DurationVar(&o.life, "for", 0, "for how long it is to be good, such as 8h (default: for ever; on a cluster as long as may be)")
	return cmd
}

func newList(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short:             "List the access keys of a namespace",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usage("all keys of a namespace are listed: what is %q?", args[0])
		}
		return o.run(cmd.Context(), act{o.list, o.listThere})
	}
	return cmd
}

func newDelete(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use: "delete KEY...", Aliases: []string{"rm"},
		Short: "Remove access keys",
		Long:  "Removes access keys. A key may be good for 5 more seconds.",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return o.names(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usage("delete which access key? muster data key list shows them")
		}
		return o.run(cmd.Context(), act{
			func(ctx context.Context, server client.Client, namespace string) error {
				return o.delete(args, func(id string) error {
					err := registry.Delete(ctx, server, namespace, id)
					if errors.Is(err, fs.ErrNotExist) {
						err = exit.NotFound("there is no access key %s in namespace %s: `muster data key list` shows them", id, namespace)
					}
					return err
				})
			},
			func(ctx context.Context, manager *visitor.Visitor, namespace string) error {
				return o.delete(args, func(id string) error { return said(manager.RemoveKey(ctx, namespace, id)) })
			},
		})
	}
	return cmd
}

// act is what a verb does on one machine, and at a cluster's manager.
type act struct {
	here  func(context.Context, client.Client, string) error
	there func(context.Context, *visitor.Visitor, string) error
}

func (o *options) run(ctx context.Context, do act) error {
	if o.format != nil {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
	}
	_, embedded, err := o.factory.EmbeddedHome()
	if err != nil {
		return err
	}
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	if embedded {
		return do.here(ctx, server, namespace)
	}
	manager, err := o.factory.Visitor()
	if err != nil {
		return err
	}
	return do.there(ctx, manager, namespace)
}

// endpoints returns the gateway's addresses for processes of the machine, and for pods of the
// isolated tier; empty if it does not serve them.
func (o *options) endpoints() (machine, pods string) {
	home, _, err := o.factory.EmbeddedHome()
	if err != nil {
		return "", ""
	}
	state, alive, err := instance.Home(home).Read()
	if err != nil || !alive {
		return "", ""
	}
	return state.S3, state.PodS3
}

func (o *options) create(ctx context.Context, server client.Client, namespace string) error {
	k, err := registry.Create(ctx, server, namespace, o.life)
	if refusal.NoNamespace(err) {
		return exit.NotFound("there is no namespace %s", namespace)
	}
	if err != nil {
		return err
	}
	it := ItemOf(k)
	it.Endpoint, it.PodEndpoint = o.endpoints()
	it.Region = gateway.Region
	return o.show(it)
}

// show tells of a key that was made.
func (o *options) show(it Item) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, it)
	}
	serving, until := "", ""
	if it.Endpoint != "" {
		serving = "export AWS_ENDPOINT_URL=" + it.Endpoint + "\n"
	}
	if it.CABundleFile != "" {
		serving += "export AWS_CA_BUNDLE='" + strings.ReplaceAll(it.CABundleFile, "'", `'\''`) + "'\n"
	}
	if it.Until != nil {
		until = ", good until " + it.Until.Local().Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(o.factory.Streams.Out, `export AWS_ACCESS_KEY_ID=%s
export AWS_SECRET_ACCESS_KEY=%s
export AWS_DEFAULT_REGION=%s
%s`, it.AccessKeyID, it.SecretAccessKey, it.Region, serving)
	if err == nil {
		_, err = fmt.Fprintf(o.factory.Streams.Err, "access key of %s for the datasets of namespace %s%s; its secret is not shown again\n", it.User, it.Namespace, until)
	}
	if err == nil && it.PodEndpoint != "" {
		_, err = fmt.Fprintf(o.factory.Streams.Err, "pods reach the gateway at %s\n", it.PodEndpoint)
	}
	return err
}

func (o *options) list(ctx context.Context, server client.Client, namespace string) error {
	keys, err := registry.List(ctx, server, namespace)
	if err != nil {
		return err
	}
	items := make([]Item, len(keys))
	for i, k := range keys {
		items[i] = ItemOf(k)
	}
	return o.table(items, namespace)
}

// table shows keys.
func (o *options) table(items []Item, namespace string) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, items)
	}
	if len(items) == 0 {
		_, err := fmt.Fprintf(o.factory.Streams.Err, "There are no access keys in namespace %s: `muster data key create` makes one.\n", namespace)
		return err
	}
	table := terminal.NewTable("KEY", "USER", "AGE", "GOOD FOR")
	for _, it := range items {
		left := "ever"
		if it.Until != nil {
			left = terminal.Span(max(time.Until(*it.Until), 0))
		}
		table.Row(it.AccessKeyID, it.User, terminal.Span(time.Since(it.Since)), left)
	}
	return table.Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), "")
}

// delete removes keys, each by remove.
func (o *options) delete(ids []string, remove func(id string) error) error {
	var errs []error
	for _, id := range ids {
		id = strings.ToUpper(id)
		err := remove(id)
		if err == nil {
			_, err = fmt.Fprintf(o.factory.Streams.Out, "access key %s deleted\n", id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// names proposes the keys that can be deleted.
func (o *options) names(ctx context.Context) []string {
	var names []string
	propose := func(items []Item) {
		for _, it := range items {
			names = append(names, it.AccessKeyID+"\t"+it.User)
		}
	}
	err := o.run(ctx, act{
		func(ctx context.Context, server client.Client, namespace string) error {
			keys, err := registry.List(ctx, server, namespace)
			for _, k := range keys {
				propose([]Item{ItemOf(k)})
			}
			return err
		},
		func(ctx context.Context, manager *visitor.Visitor, namespace string) error {
			var items []Item
			err := manager.Ask(ctx, namespace, "/keys", nil, &items)
			propose(items)
			return err
		},
	})
	if err != nil {
		return nil
	}
	return names
}

// ItemOf is a key as it is printed.
func ItemOf(k registry.Key) Item {
	it := Item{AccessKeyID: k.ID, SecretAccessKey: k.Secret, Namespace: k.Namespace, User: k.User, Since: k.Made}
	if !k.Ends.IsZero() {
		it.Until = &k.Ends
	}
	return it
}
