// Package credential is the command `muster credential`: a short certificate for the API
// server of the machine's Muster.
package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// The formats.
const (
	plugin     = "json"
	kubeconfig = "kubeconfig"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "credential",
		Short: "Print a certificate for kubectl, for the Muster that all users of this machine share",
		Long: `Prints a client certificate of 15 minutes, and its key, for the API server of the
Muster that all users of this machine share. kubectl runs this command by itself
(an exec plugin) with the kubeconfig that -o kubeconfig prints, which holds no
secret. muster kubectl needs neither.`,
		Example: `  muster credential -o kubeconfig > ~/.kube/muster
  KUBECONFIG=~/.kube/muster kubectl get pods`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch format {
			case plugin:
				return printPlugin(cmd.Context(), f)
			case kubeconfig:
				return printKubeconfig(cmd.Context(), f)
			}
			return exit.Usage("-o %s: give %s or %s", format, plugin, kubeconfig)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", plugin, "what to print: "+plugin+", an ExecCredential; or "+kubeconfig)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{plugin, kubeconfig}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printPlugin prints what kubectl reads of a plugin.
func printPlugin(ctx context.Context, f *connection.Factory) error {
	made, err := f.Credential(ctx)
	if err != nil {
		return err
	}
	expires := metav1.NewTime(made.Expires)
	answer := clientauthentication.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status: &clientauthentication.ExecCredentialStatus{
			ExpirationTimestamp: &expires, ClientCertificateData: string(made.Certificate), ClientKeyData: string(made.Key),
		},
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("writing the credential: %w", err)
	}
	_, err = fmt.Fprintln(terminal.Data(f.Streams.Out), string(text))
	return err
}

func printKubeconfig(ctx context.Context, f *connection.Factory) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	config, err := f.BoxKubeconfig(ctx, program)
	if err != nil {
		return err
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	_, err = terminal.Data(f.Streams.Out).Write(text)
	return err
}
