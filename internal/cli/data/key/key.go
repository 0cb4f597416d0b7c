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
	// Endpoint is where S3 clients find the gateway, if it serves.
	Endpoint string `json:"endpoint,omitempty"`
	Region   string `json:"region,omitempty"`
}

type options struct {
	factory *connection.Factory
	format  *output.Format
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make and remove access keys for S3 clients",
		Long: `S3 clients (aws, rclone, boto3, pandas, ...) read and write datasets as
s3://DATASET/VERSION/PATH at the address that muster status shows. An access key
opens the datasets of one namespace, with the rights of the user who made it.`,
		Example: "  muster data key create\n  muster data key list\n  muster data key delete MU...",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return exit.Usage("muster data key %s: there is no such command; there are create, list and delete", args[0])
		},
	}
	cmd.AddCommand(newCreate(f), newList(f), newDelete(f))
	return cmd
}

func newCreate(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an access key for yourself",
		Long: `Makes an access key for you and the datasets of the namespace (-n). Its secret is
shown this once. The key is good until it is deleted.`,
		Example:           "  muster data key create\n  muster data key create -n vision -o json",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usage("a key gets its name by itself: what is %q?", args[0])
		}
		return o.run(cmd.Context(), o.create)
	}
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
		return o.run(cmd.Context(), o.list)
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
		return o.run(cmd.Context(), func(ctx context.Context, server client.Client, namespace string) error {
			return o.delete(ctx, server, namespace, args)
		})
	}
	return cmd
}

func (o *options) run(ctx context.Context, do func(context.Context, client.Client, string) error) error {
	if o.format != nil {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
	}
	if err := opening.Alone(o.factory, "it has no S3 gateway, and so no access keys: use muster data"); err != nil {
		return err
	}
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	return do(ctx, server, namespace)
}

// endpoint is where the gateway serves, empty where it does not.
func (o *options) endpoint() string {
	home, _, err := o.factory.EmbeddedHome()
	if err != nil {
		return ""
	}
	state, alive, err := instance.Home(home).Read()
	if err != nil || !alive {
		return ""
	}
	return state.S3
}

func (o *options) create(ctx context.Context, server client.Client, namespace string) error {
	k, err := registry.Create(ctx, server, namespace)
	if refusal.NoNamespace(err) {
		return exit.NotFound("there is no namespace %s", namespace)
	}
	if err != nil {
		return err
	}
	it := item(k, namespace)
	it.Endpoint, it.Region = o.endpoint(), gateway.Region
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, it)
	}
	serving := ""
	if it.Endpoint != "" {
		serving = "export AWS_ENDPOINT_URL=" + it.Endpoint + "\n"
	}
	_, err = fmt.Fprintf(o.factory.Streams.Out, `export AWS_ACCESS_KEY_ID=%s
export AWS_SECRET_ACCESS_KEY=%s
export AWS_DEFAULT_REGION=%s
%s`, it.AccessKeyID, it.SecretAccessKey, it.Region, serving)
	if err == nil {
		_, err = fmt.Fprintf(o.factory.Streams.Err, "access key of %s for the datasets of namespace %s; its secret is not shown again\n", it.User, namespace)
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
		items[i] = item(k, namespace)
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, items)
	}
	if len(items) == 0 {
		_, err := fmt.Fprintf(o.factory.Streams.Err, "There are no access keys in namespace %s: `muster data key create` makes one.\n", namespace)
		return err
	}
	table := terminal.NewTable("KEY", "USER", "AGE")
	for _, it := range items {
		table.Row(it.AccessKeyID, it.User, terminal.Span(time.Since(it.Since)))
	}
	return table.Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), "")
}

func (o *options) delete(ctx context.Context, server client.Client, namespace string, ids []string) error {
	var errs []error
	for _, id := range ids {
		err := registry.Delete(ctx, server, namespace, strings.ToUpper(id))
		if errors.Is(err, fs.ErrNotExist) {
			err = exit.NotFound("there is no access key %s in namespace %s: `muster data key list` shows them", id, namespace)
		}
		if err == nil {
			_, err = fmt.Fprintf(o.factory.Streams.Out, "access key %s deleted\n", id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// names proposes the keys that can be deleted.
func (o *options) names(ctx context.Context) []string {
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return nil
	}
	keys, err := registry.List(ctx, server, namespace)
	if err != nil {
		return nil
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.ID+"\t"+k.User)
	}
	return names
}

func item(k registry.Key, namespace string) Item {
	return Item{AccessKeyID: k.ID, SecretAccessKey: k.Secret, Namespace: namespace, User: k.User, Since: k.Made}
}
