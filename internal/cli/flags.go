package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// flagWords says what is wrong with a flag: of a value that cannot be read
// what kind of value is wanted, in place of the words of the function that
// could not read it.
func flagWords(cmd *cobra.Command, err error) string {
	value, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "o" && cmd.Name() == "describe" {
			return "it is for reading; `muster get NAME -o yaml` prints the object"
		}
		return strings.TrimSpace(err.Error())
	}
	wanted := map[string]string{"int": "a whole number", "int64": "a whole number", "N|MIN..MAX": "a whole number, such as 8, or a range, such as 1..8", "bool": "true or false", "duration": "a number with a unit, such as 30s, 5m or 1h"}[value.GetFlag().Value.Type()]
	if wanted == "" {
		return strings.TrimSpace(err.Error())
	}
	return fmt.Sprintf("--%s %s: give %s", value.GetFlag().Name, value.GetValue(), wanted)
}

// meant maps flags of other programs to Muster's flags.
var meant = map[string]string{
	"timeout": "max-time", "time-limit": "max-time", "walltime": "max-time", "deadline": "max-time",
	"gres": "gpus", "num-gpus": "gpus", "ntasks": "workers", "partition": "queue",
}

// nearFlag proposes the flag that is nearest to one that does not exist.
func nearFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	if flag := meant[unknown.GetSpecifiedName()]; cmd.Flags().Lookup(flag) != nil {
		return "; did you mean --" + flag + "?"
	}
	return suggestion.Phrase("--"+unknown.GetSpecifiedName(), flagNames(cmd))
}
