package get

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/visibility"
)

// lookupLimit bounds the lookup of all logins of a table.
const lookupLimit = 2 * time.Second

// withUsers adds a column with the login of each row's user to a table of all namespaces, if
// any of these is a user's of this machine.
func withUsers(table *metav1.Table, logins visibility.Logins) error {
	users, some := make([]string, len(table.Rows)), false
	for i := range table.Rows {
		metadata, err := rowMetadata(&table.Rows[i])
		if err != nil {
			return err
		}
		login, is := logins.OfNamespace(metadata.Namespace)
		users[i], some = login, some || is
	}
	if !some || len(table.ColumnDefinitions) == 0 {
		return nil
	}
	table.ColumnDefinitions = slices.Insert(slices.Clone(table.ColumnDefinitions), 1, metav1.TableColumnDefinition{Name: "User", Type: "string"})
	for i := range table.Rows {
		table.Rows[i].Cells = slices.Insert(slices.Clone(table.Rows[i].Cells), 1, any(users[i]))
	}
	return nil
}

// addUsers does so where the namespaces are those of this machine.
func (t *tables) addUsers(ctx context.Context, table *metav1.Table) error {
	if !t.options.all || !t.wanted.Namespaced() || !t.options.factory.Embedded() && !t.options.factory.AsksDoor() {
		return nil
	}
	directory := account.New(account.Options{})
	defer directory.Close()
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	return withUsers(table, func(uid uint32) string { return directory.NameWithin(ctx, uid) })
}
