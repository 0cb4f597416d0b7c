// Package conflict is what commands have in common that may meet paths which both sides
// have changed: whose change counts, and which paths these are.
//
// It must not know what is merged.
package conflict

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/data"
)

// most is how many paths are listed.
const most = 20

// Flag gives a command the flag --prefer; usage says what into and from are.
func Flag(cmd *cobra.Command, prefer *string, usage string) {
	cmd.Flags().StringVar(prefer, "prefer", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("prefer", cobra.FixedCompletions([]string{string(data.PreferInto), string(data.PreferFrom)}, cobra.ShellCompDirectiveNoFileComp))
}

// Check refuses what is no side; from says whose change the other one is than the branch's.
func Check(prefer, from string) error {
	switch data.Prefer(prefer) {
	case data.PreferNobody, data.PreferInto, data.PreferFrom:
		return nil
	}
	return exit.Usage("--prefer %s: give %s (the branch's own change counts) or %s (%s)", prefer, data.PreferInto, data.PreferFrom, from)
}

// Paths lists the first paths of a conflict, a line each.
func Paths(conflict *data.ConflictError) string {
	shown := conflict.Paths[:min(most, len(conflict.Paths))]
	words := strings.Join(shown, "\n  ")
	if more := len(conflict.Paths) - len(shown) + conflict.More; more > 0 {
		words += fmt.Sprintf("\n  and %d more", more)
	}
	return words
}
