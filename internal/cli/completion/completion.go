// Package completion is the command `muster completion`: the script by which a
// shell completes muster's commands, flags and job names.
package completion

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell: " + strings.Join(shells, ", "),
		Long:  "Prints the script by which a shell completes muster's commands, flags and job names.",
		Example: `  source <(muster completion bash)                            # for this shell
  muster completion bash > /etc/bash_completion.d/muster      # for good
  muster completion zsh > "${fpath[1]}/_muster"
  muster completion fish > ~/.config/fish/completions/muster.fish`,
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("for which shell? Give one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), terminal.Data(f.Streams.Out)
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(out, true); err != nil {
					return err
				}
				_, err := io.WriteString(out, bashWords)
				return err
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return exit.Usage("completion %s: there is %s%s", args[0], strings.Join(shells, ", "), suggestion.Phrase(args[0], shells))
		},
	}
}

// bashWords is for a bash without the package bash-completion, which tells the
// script which words are typed: bash splits them at '=' and ':' too.
const bashWords = `
if ! declare -F _get_comp_words_by_ref >/dev/null && ! declare -F _init_completion >/dev/null; then
    __muster_init_completion()
    {
        local i joined=""
        COMPREPLY=() words=() cword=0
        for i in "${!COMP_WORDS[@]}"; do
            if [[ $i -gt 0 && ( ${COMP_WORDS[i]} == [=:]* || -n $joined ) ]]; then
                words[${#words[@]}-1]+=${COMP_WORDS[i]}
            else
                words+=("${COMP_WORDS[i]}")
            fi
            joined=""
            [[ ${COMP_WORDS[i]} == *[=:] && $i -lt $COMP_CWORD ]] && joined=1
            [[ $i -eq $COMP_CWORD ]] && cword=$((${#words[@]} - 1))
        done
        cur=${words[cword]}
        prev=${words[cword > 0 ? cword - 1 : 0]}
    }
fi
`
