package session

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/people/control"
	sessions "github.com/muster-dev/muster/internal/people/session"
)

// lookupLimit bounds the lookup of all logins of a table.
const lookupLimit = 2 * time.Second

// AddAll adds the flag by which administrators list the entries of all users.
func AddAll(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all", false, "of all users of the machine; for administrators of a Muster that they share")
}

// Table is a table of entries. Where it has those of all users, its second column is the login.
type Table struct {
	*terminal.Table
	logins map[string]string
}

// NewTable returns a table with these columns, and looks up the logins of a list of all users.
func NewTable(ctx context.Context, list []sessions.Entry, all bool, columns ...string) *Table {
	if !all {
		return &Table{Table: terminal.NewTable(columns...)}
	}
	users := account.New(account.Options{})
	defer users.Close()
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	t := &Table{Table: terminal.NewTable(slices.Insert(columns, 1, "USER")...), logins: map[string]string{}}
	for _, e := range list {
		name := e.Caller.User
		if uid, ok := control.UIDOf(name); ok && t.logins[name] == "" {
			t.logins[name] = users.NameWithin(ctx, uid)
		}
	}
	return t
}

// Row adds a row of an entry.
func (t *Table) Row(e sessions.Entry, cells ...string) {
	if t.logins != nil {
		cells = slices.Insert(cells, 1, cmp.Or(t.logins[e.Caller.User], e.Caller.User))
	}
	t.Table.Row(cells...)
}
