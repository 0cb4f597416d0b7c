package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// nearFlag proposes the flag that is nearest to one that does not exist.
func nearFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	return suggestion.Phrase("--"+unknown.GetSpecifiedName(), flagNames(cmd))
}
